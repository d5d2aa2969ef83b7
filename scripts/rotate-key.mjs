// `npm run rotate-key`: builds if the sources are newer, then runs dist/rotate-key.js in this process.
import { ensureBuilt } from './build.mjs';
import { ensureInstalled } from './install.mjs';

await ensureInstalled();
await ensureBuilt();
await import('../dist/rotate-key.js');
