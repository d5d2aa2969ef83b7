// node scripts/record-examples.mjs: writes src/api/examples.json, the examples of the reference, from the responses in
// the tests of the API.
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { node, root } from './install.mjs';

const folder = mkdtempSync(join(tmpdir(), 'examples-'));
process.env.RECORD_EXAMPLES = folder;
const tests = process.argv.slice(2);
await node([
  join(root, 'scripts', 'test.mjs'),
  ...(tests.length > 0 ? tests : ['test/api', 'test/live/sending/sending.test.ts']),
]);
const path = join(root, 'src', 'api', 'examples.json');
const examples = JSON.parse(readFileSync(path, 'utf8'));
for (const name of readdirSync(folder))
  examples[name.replace('.json', '')] = JSON.parse(readFileSync(join(folder, name), 'utf8'));
const sorted = Object.fromEntries(Object.entries(examples).sort(([a], [b]) => (a < b ? -1 : 1)));
writeFileSync(path, `${JSON.stringify(sorted, null, 2)}\n`);
rmSync(folder, { recursive: true });
