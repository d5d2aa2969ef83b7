// Whether `npm start` runs on DATA_DIR: installing and building would replace the files of the running processes.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from './install.mjs';

/** Whether that file of dist is there to run, and the process that has locked DATA_DIR (src/embedded/data-dir.ts) runs. */
export async function isInUse(entry) {
  if (!existsSync(join(root, 'dist', `${entry}.js`))) return false;
  try {
    const lock = readFileSync(join(process.env.DATA_DIR?.trim() || '.data', 'lock'), 'utf8');
    const { isRunning } = await import('../dist/src/runtime/process-handle.js');
    return isRunning(JSON.parse(lock));
  } catch {
    return false;
  }
}
