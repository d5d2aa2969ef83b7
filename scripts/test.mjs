// `npm test [-- paths and options of jest]`: installs what is missing, starts the servers, runs the tests, stops the
// servers.
import { ensureInstalled } from './install.mjs';

await ensureInstalled();
const { register } = await import('tsx/esm/api');
register();
const { runTests } = await import('../test/helpers/runner/run-tests.ts');
process.exitCode = await runTests(process.argv.slice(2));
