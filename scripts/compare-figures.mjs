// `node scripts/compare-figures.mjs BEFORE.json AFTER.json`: prints the figures of two runs of `npm run bench -- … --json=FILE`
// as a table in Markdown, those that differ most first. `--most=1.1` fails when a figure is missing or over 1.1 times what it was.
import { readFileSync } from 'node:fs';

const files = process.argv.slice(2).filter((arg) => !arg.startsWith('--'));
const most = Number(process.argv.find((arg) => arg.startsWith('--most='))?.slice('--most='.length) ?? Infinity);
const [before, after] = files.map((file) => JSON.parse(readFileSync(file, 'utf8')));
if (after === undefined) {
  console.error('Usage: node scripts/compare-figures.mjs BEFORE.json AFTER.json [--most=RATIO]');
  process.exit(2);
}

const rowsOf = ({ figures = {} }) =>
  Object.entries(figures).flatMap(([bench, { figures: own }]) =>
    own.map(({ name, median }) => [`${bench}: ${name}`, median]),
  );
const earlier = new Map(rowsOf(before));
const rows = rowsOf(after).map(([name, now]) => ({
  name,
  now,
  then: earlier.get(name),
  ratio: now / earlier.get(name),
}));
const measured = new Set(rows.map(({ name }) => name));
const missing = [...earlier.keys()].filter((name) => !measured.has(name));
const distance = ({ ratio }) => (Number.isFinite(ratio) && ratio > 0 ? Math.abs(Math.log(ratio)) : -1);
const shown = (value) => (Number.isFinite(value) ? String(Math.round(value * 100) / 100) : '–');

console.log(
  `Before: ${before.at ?? 'no figures'}. After: ${after.at}. Different machines differ by a third without any change.\n`,
);
console.log('| Figure | Before | After | Ratio |\n|-|-|-|-|');
for (const row of rows.sort((a, b) => distance(b) - distance(a)))
  console.log(`| ${row.name} | ${shown(row.then)} | ${shown(row.now)} | ${shown(row.ratio)} |`);

const worse = rows.filter(({ then, now, ratio }) => then !== undefined && (ratio > most || !Number.isFinite(now)));
const faults = most === Infinity ? [] : [...worse.map(({ name }) => name), ...missing];
if (faults.length > 0) {
  console.error(`\nMore than ${most} times what it was, or missing: ${faults.join('; ')}`);
  process.exitCode = 1;
}
