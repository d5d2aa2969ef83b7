// `node scripts/compare-figures.mjs BEFORE.json AFTER.json`: prints the figures of two runs of `npm run bench -- … --json=FILE`
// as a table in Markdown, those that differ most first.
import { readFileSync } from 'node:fs';

const [before, after] = process.argv.slice(2).map((file) => JSON.parse(readFileSync(file, 'utf8')));
if (after === undefined) {
  console.error('Usage: node scripts/compare-figures.mjs BEFORE.json AFTER.json');
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
const distance = ({ ratio }) => (Number.isFinite(ratio) && ratio > 0 ? Math.abs(Math.log(ratio)) : -1);
const shown = (value) => (Number.isFinite(value) ? String(Math.round(value * 100) / 100) : '–');

console.log(
  `Before: ${before.at ?? 'no figures'}. After: ${after.at}. Different machines differ by a third without any change.\n`,
);
console.log('| Figure | Before | After | Ratio |\n|-|-|-|-|');
for (const row of rows.sort((a, b) => distance(b) - distance(a)))
  console.log(`| ${row.name} | ${shown(row.then)} | ${shown(row.now)} | ${shown(row.ratio)} |`);
