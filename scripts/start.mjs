// `npm start`: installs and builds what is missing or out of date, then runs dist/start.js in this process. `--docs`: builds the
// site of docs/ in the background.
import { ensureInstalled } from './install.mjs';
import { ensureBuilt } from './build.mjs';

await ensureInstalled();
await ensureBuilt();
await import('../dist/start.js');
if (process.argv.includes('--docs')) await (await import('./docs/site.mjs')).buildSiteInBackground();
