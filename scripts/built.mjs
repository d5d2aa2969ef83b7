// `npm run rotate-key`, `backup` and `restore`: builds if the sources are newer, then runs that file of dist in this process.
import { ensureBuilt } from './build.mjs';
import { ensureInstalled } from './install.mjs';

const [entry] = process.argv.splice(2, 1);
await ensureInstalled();
await ensureBuilt();
await import(`../dist/${entry}.js`);
