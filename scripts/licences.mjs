// `npm run licences [-- --list]`: checks the licences of all shipped packages; fails on one that is not known to be
// compatible. `--list` prints a line for each package instead of the counts.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from './install.mjs';

/** Licences without conditions on the work as a whole. Of a choice, one is enough. */
const ALLOWED = [
  ...['0BSD', 'Apache-2.0', 'BSD-2-Clause', 'BSD-3-Clause', 'BlueOak-1.0.0', 'CC-BY-4.0', 'CC0-1.0', 'ISC', 'MIT'],
  // of ical.js, which is unmodified: the licence has conditions only on changes of its files
  'MPL-2.0',
  ...['MIT-0', 'PostgreSQL', 'Python-2.0', 'Unlicense', 'Zlib'],
];

/** Packages without a machine-readable licence: that of their LICENSE file. */
const BY_FILE = { 'node_modules/unionfs': 'Unlicense' };

const { packages } = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8'));
const shipped = Object.entries(packages).filter(([path, { dev }]) => path !== '' && !dev);

/** The licence in the lock file, else in the installed package. */
function licenceOf(path, { license }) {
  if (license !== undefined || BY_FILE[path] !== undefined) return license ?? BY_FILE[path];
  try {
    const { license: own, licenses } = JSON.parse(readFileSync(join(root, path, 'package.json'), 'utf8'));
    return own ?? licenses?.map(({ type }) => type).join(' AND ') ?? 'unknown';
  } catch {
    return 'unknown';
  }
}

/** SPDX: `A AND B` needs both, `A OR B` one of them. */
const isAllowed = (expression) =>
  expression
    .replace(/^\((.*)\)$/, '$1')
    .split(' AND ')
    .every((part) => part.split(' OR ').some((name) => ALLOWED.includes(name.replace(/[()]/g, '').trim())));

const found = shipped.map(([path, entry]) => ({
  name: path.replace(/^.*node_modules\//, ''),
  version: entry.version,
  licence: licenceOf(path, entry),
}));
if (process.argv.includes('--list')) {
  for (const { name, version, licence } of found) console.log(`${name}@${version} ${licence}`);
} else {
  const counts = new Map();
  for (const { licence } of found) counts.set(licence, (counts.get(licence) ?? 0) + 1);
  for (const [licence, count] of [...counts].sort(([, a], [, b]) => b - a)) console.log(`${count} ${licence}`);
}
const refused = found.filter(({ licence }) => !isAllowed(licence));
for (const { name, version, licence } of refused)
  console.error(`${name}@${version}: the licence ${licence} is not in the list`);
process.exit(refused.length > 0 ? 1 : 0);
