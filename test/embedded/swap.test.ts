import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { refuseUnfinishedRestore, swapIn, undoSwap } from '../../src/embedded/backup/swap.ts';

describe('what a restore has replaced', () => {
  let dir: string;
  let dataDir: string;
  let disk: string;
  const file = (...names: string[]) => join(dir, ...names);
  const mail = () => readFile(join(disk, 'storage', 'mail'), 'utf8');

  beforeEach(async () => {
    dir = await mkdtemp(join(tmpdir(), 'swap-'));
    [dataDir, disk] = [file('data'), file('disk')];
    for (const folder of [dataDir, join(disk, 'storage'), join(disk, 'unpacked')])
      await mkdir(folder, { recursive: true });
    await writeFile(join(disk, 'storage', 'mail'), 'before');
    await writeFile(join(disk, 'unpacked', 'mail'), 'restored');
    await writeFile(join(dataDir, 'password'), 'before');
  });
  afterEach(() => rm(dir, { recursive: true }));

  it('is put back only when all of it is there', async () => {
    const [as = ''] = await swapIn(dataDir, 'a-backup', [
      { path: join(disk, 'storage'), by: join(disk, 'unpacked') },
      { path: join(dataDir, 'password') },
      { path: join(dataDir, 'new') },
    ]);
    expect(await mail()).toBe('restored');

    // its disk is not mounted
    await rename(disk, file('away'));
    await expect(undoSwap(dataDir)).rejects.toThrow(
      `${as}, which an unfinished restore must put back, is not there: mount its disk, or put it back, and run this again.`,
    );
    expect(existsSync(join(dataDir, 'password'))).toBe(false);
    expect(() => refuseUnfinishedRestore(dataDir)).toThrow('npm run restore -- a-backup');

    await rename(file('away'), disk);
    await undoSwap(dataDir);
    expect(await mail()).toBe('before');
    expect(existsSync(join(dataDir, 'password'))).toBe(true);
    refuseUnfinishedRestore(dataDir);
  });
});
