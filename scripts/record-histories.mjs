// `node scripts/record-histories.mjs`: runs the tests of the workflows and keeps what Temporal recorded of them in
// test/histories/<version>, where test/workflows/replay.test.ts replays them for ever after. Once for each release.
import { readFileSync, rmSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { register } from 'tsx/esm/api';

const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'));
const dir = fileURLToPath(new URL(`../test/histories/${version}`, import.meta.url));
rmSync(dir, { recursive: true, force: true });
process.env.RECORD_HISTORIES = dir;
register();
const { runTests } = await import('../test/helpers/run-tests.ts');
process.exitCode = await runTests(['test/workflows', 'test/api/commands', '--testPathIgnorePatterns=replay']);
