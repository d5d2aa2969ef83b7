import { existsSync } from 'node:fs';
import {
  chmod,
  chown,
  cp,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rename,
  rm,
  stat,
  symlink,
  writeFile,
} from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { clusterOf, embedPostgres } from '../../src/embedded/postgres.ts';
import { SYSTEM_HOME } from '../../src/embedded/postgres-binaries.ts';
import { freePort } from '../helpers/servers/free-port.ts';

/** As root Postgres runs as another user, who may not be able to enter the data folder. */
const asRoot = process.getuid?.() === 0 ? it : it.skip;

describe('the cluster of a data folder', () => {
  let dir: string;
  let lines: string[];
  const where = (folder = dir) => clusterOf({ dir: folder, printLine: (line) => lines.push(line) });
  const create = async (folder = dir) =>
    embedPostgres({ dir: folder, port: await freePort(), printLine: (line) => lines.push(line) });
  const password = () => readFile(join(dir, 'postgres-password'), 'utf8');
  const home = async (folder = dir) => join(SYSTEM_HOME, (await readFile(join(folder, 'instance-id'), 'utf8')).trim());

  beforeEach(async () => {
    dir = await mkdtemp(join(tmpdir(), 'postgres-home-'));
    lines = [];
  });
  afterEach(async () => {
    const names = await readdir(dir, { recursive: true });
    for (const name of names.filter((each) => basename(each) === 'instance-id')) {
      await rm(await home(join(dir, dirname(name))), { recursive: true, force: true });
    }
    await rm(dir, { recursive: true });
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

  asRoot(
    'is not shared by a copy of the folder, and follows one that is moved',
    async () => {
      await chmod(dir, 0o700);
      const [original, copy, link] = ['original', 'copy', 'link'].map((name) => join(dir, name)) as [
        string,
        string,
        string,
      ];
      await mkdir(original);
      await create(original);
      const path = join(await home(original), 'postgres');
      await symlink(original, link);
      expect((await where(link)).path).toBe(path);
      await where(original);

      await cp(original, copy, { recursive: true });
      await expect(where(copy)).rejects.toThrow(
        `${copy} and ${original} would share the database in ${join(path, '..')}, since one is a copy of the other: ` +
          'delete instance-id in the copy, to start it with an empty database.',
      );
      expect((await where(original)).path).toBe(path);
      await rm(join(copy, 'instance-id'));
      await create(copy);
      expect(await home(copy)).not.toBe(join(path, '..'));

      const moved = join(dir, 'moved');
      await rename(original, moved);
      expect((await where(moved)).path).toBe(path);
    },
    60_000,
  );

  asRoot(
    'is not replaced by an empty one when the folder was moved without it',
    async () => {
      await chmod(dir, 0o700);
      await create();
      const path = join(await home(), 'postgres');
      await rm(dirname(path), { recursive: true });
      const missing =
        `the database of ${dir}, ${path}, is missing: put it back, or restore a backup (npm run restore), ` +
        `or delete ${join(dir, 'instance-id')} to start with an empty database.`;
      // the second start neither, nor one whose Postgres can enter the folder
      for (const mode of [0o700, 0o700, 0o711]) {
        await chmod(dir, mode);
        await expect(create()).rejects.toThrow(missing);
      }
      await chmod(dir, 0o700);
      // a restore puts it there
      expect((await where()).path).toBe(path);
      await expect(create()).rejects.toThrow(missing);
      await rm(join(dir, 'instance-id'));
      await create();
      expect(await home()).not.toBe(dirname(path));
      await rm(dirname(path), { recursive: true, force: true });
    },
    60_000,
  );

  asRoot(
    'is created by the next start after one that was killed while it created it',
    async () => {
      await chmod(dir, 0o700);
      await create();
      const path = join(await home(), 'postgres');
      await rename(path, `${path}.new`);
      const { url } = await create();
      expect(existsSync(path)).toBe(true);
      expect(new URL(url).password).toBe((await password()).trim());
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
