import { chmod, chown, mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { clusterOf, embedPostgres } from '../../src/embedded/postgres.ts';
import { SYSTEM_HOME } from '../../src/embedded/postgres-binaries.ts';
import { freePort } from '../helpers/servers/free-port.ts';

/** As root Postgres runs as another user, who may not be able to enter the data folder. */
const asRoot = process.getuid?.() === 0 ? it : it.skip;

describe('the cluster of a data folder', () => {
  let dir: string;
  let homes: string[];
  let lines: string[];
  const where = (folder = dir) => clusterOf({ dir: folder, printLine: (line) => lines.push(line) });
  const create = async (folder = dir) =>
    embedPostgres({ dir: folder, port: await freePort(), printLine: (line) => lines.push(line) });
  const password = () => readFile(join(dir, 'postgres-password'), 'utf8');
  /** Its system folder, which the test deletes. */
  const home = async (folder = dir) => {
    const path = join(SYSTEM_HOME, await readFile(join(folder, 'instance-id'), 'utf8'));
    homes.push(path);
    return path;
  };

  beforeEach(async () => {
    dir = await mkdtemp(join(tmpdir(), 'postgres-home-'));
    homes = [];
    lines = [];
  });
  afterEach(async () => {
    for (const path of [dir, ...homes]) await rm(path, { recursive: true, force: true });
  });

  asRoot(
    'is not replaced by a new one when it belongs to another user',
    async () => {
      const theirs = join(dir, 'postgres');
      await mkdir(theirs, { mode: 0o700 });
      await writeFile(join(dir, 'postgres-password'), 'theirs');
      await chown(theirs, 12_345, 12_345);
      for (const mode of [0o700, 0o711]) {
        await chmod(dir, mode);
        for (const use of [where, create]) {
          await expect(use()).rejects.toThrow(
            `the database in ${theirs} belongs to another user: run this as the user who created it.`,
          );
        }
      }
      expect((await readdir(dir)).sort()).toEqual(['postgres', 'postgres-password']);
      expect(await password()).toBe('theirs');
    },
    60_000,
  );

  asRoot(
    'stays where it is when the user of Postgres can enter the folder since, or no longer',
    async () => {
      await chmod(dir, 0o700);
      const { url } = await create();
      const path = join(await home(), 'postgres');
      expect(lines).toEqual([
        `${dir} is not accessible to the user of Postgres; storing the database in ${join(path, '..')}`,
      ]);
      await chmod(dir, 0o711);
      expect((await where()).path).toBe(path);
      expect(new URL((await create()).url).password).toBe(new URL(url).password);

      const inside = join(dir, 'inside');
      await mkdir(inside, { mode: 0o711 });
      await create(inside);
      expect((await stat(join(inside, 'postgres'))).isDirectory()).toBe(true);
      await chmod(dir, 0o700);
      await expect(where(inside)).rejects.toThrow(
        `the database in ${inside}/postgres is not accessible to the user of Postgres: let that user enter the folders above it.`,
      );
    },
    60_000,
  );

  it('is created with the password that is there', async () => {
    await chmod(dir, 0o711);
    await writeFile(join(dir, 'postgres-password'), 'of-another-cluster\n');
    expect(new URL((await create()).url).password).toBe('of-another-cluster');
    expect(await password()).toBe('of-another-cluster\n');
  }, 60_000);
});
