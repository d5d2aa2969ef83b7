// `npm test [-- paths and options of jest]`: installs what is missing, brings the servers up, tests, ends them.
import { ensureInstalled } from './install.mjs';

await ensureInstalled();
const { register } = await import('tsx/esm/api');
register();
const { runTests } = await import('../test/helpers/runner/run-tests.ts');
process.exitCode = await runTests(process.argv.slice(2));
