// `npm start`: installs and builds what is missing or out of date, then runs dist/start.js in this process, which refuses a DATA_DIR
// that another one runs on: nothing is installed or built then. `--docs`: builds the site of docs/ in the background.
import { ensureInstalled } from './install.mjs';
import { ensureBuilt } from './build.mjs';
import { isInUse } from './in-use.mjs';

const isRefused = await isInUse('start');
if (!isRefused) {
  await ensureInstalled();
  await ensureBuilt();
}
await import('../dist/start.js');
if (process.argv.includes('--docs') && !isRefused) {
  await (await import('./docs/site.mjs')).buildSiteInBackground();
}
