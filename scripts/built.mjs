// `npm run rotate-key`, `backup` and `restore`: builds if the sources are newer, then runs that file of dist in this process.
// While `npm start` runs on DATA_DIR it installs and builds nothing, which would replace the files of the running processes.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { ensureBuilt, isBuilt } from './build.mjs';
import { ensureInstalled, root } from './install.mjs';

const [entry] = process.argv.splice(2, 1);
if (existsSync(join(root, 'dist', `${entry}.js`)) && (await isInUse())) {
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

/** Whether the process that has locked DATA_DIR (src/embedded/data-dir.ts) runs. */
async function isInUse() {
  try {
    const lock = readFileSync(join(process.env.DATA_DIR?.trim() || '.data', 'lock'), 'utf8');
    const { isRunning } = await import('../dist/src/runtime/process-handle.js');
    return isRunning(JSON.parse(lock));
  } catch {
    return false;
  }
}
