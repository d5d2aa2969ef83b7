// `npm run bench -- NAME…`: builds if the sources are newer, then measures; see bench/run.ts.
import { ensureInstalled } from './install.mjs';
import { ensureBuilt } from './build.mjs';

await ensureInstalled();
await ensureBuilt();
const { register } = await import('tsx/esm/api');
register();
const { runBench } = await import('../bench/run.ts');
process.exitCode = await runBench(process.argv.slice(2));
