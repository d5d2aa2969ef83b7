import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { it } from '@jest/globals';

const ROOT = join(import.meta.dirname, '..', '..');

it('docs/settings.md has the settings of src/config as they are', () => {
  execFileSync(process.execPath, ['scripts/docs/pages.mjs', '--check'], { cwd: ROOT, stdio: 'pipe' });
});
