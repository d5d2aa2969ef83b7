// `npm run rotate-key`, `backup` and `restore`: builds if the sources are newer, then runs that file of dist in this process.
// While `npm start` runs on DATA_DIR it installs and builds nothing.
import { ensureBuilt, isBuilt } from './build.mjs';
import { isInUse } from './in-use.mjs';
import { ensureInstalled } from './install.mjs';

const [entry] = process.argv.splice(2, 1);
if (await isInUse(entry)) {
  if (!isBuilt()) {
    console.log(
      'The sources have changed since the running version was built: this command uses the running version, ' +
        'and the next npm start builds the new one.',
    );
  }
} else {
  await ensureInstalled();
  await ensureBuilt();
}
await import(`../dist/${entry}.js`);
