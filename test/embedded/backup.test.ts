import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { chmod, lstat, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import pg from 'pg';
import { loadStartConfig } from '../../src/config/config.ts';
import { encryptionKeySince } from '../../src/db/coordination/installation.ts';
import { openDatabase } from '../../src/db/open.ts';
import { newEncryptionKey, openDataDir } from '../../src/embedded/data-dir.ts';
import { createReport } from '../../src/embedded/report.ts';
import { migrateDatabase, startPostgres } from '../../src/embedded/servers.ts';
import { createSupervisor } from '../../src/embedded/supervise.ts';
import { handleOf } from '../../src/runtime/process-handle.ts';
import { createSecrets } from '../../src/security/secrets.ts';
import { storeEmail } from '../helpers/assert/rows.ts';
import { builtEntry } from '../helpers/product/built.ts';
import { storeAccount } from '../helpers/product/stored-account.ts';

/* `npm run backup` and `npm run restore` on what an `npm start` has left, which does not run. */

const quiet = { ...createReport(process.stdout), line: () => {} };

let dir: string;
let dataDir: string;
let backup: string;

/** Runs work on the Postgres of the data folder. */
async function onPostgres<T>(work: (url: string) => Promise<T>): Promise<T> {
  const data = await openDataDir(dataDir, () => {});
  const supervisor = createSupervisor({ logDir: join(dir, 'logs'), printLine: () => {} });
  try {
    return await work(
      await startPostgres({ settings: loadStartConfig({ DATA_DIR: dataDir }), supervisor, report: quiet }),
    );
  } finally {
    await supervisor.stop();
    data.release();
  }
}

async function query<Row extends object>(text: string): Promise<Row[]> {
  return onPostgres(async (url) => {
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    try {
      return (await client.query<Row>(text)).rows;
    } finally {
      await client.end();
    }
  });
}

interface Ended {
  code: number | null;
  signal: NodeJS.Signals | null;
  output: string;
}

/** Runs a program of the product to its end. `hook`: JavaScript that it runs first. */
async function run(
  name: 'backup' | 'restore' | 'start',
  args: string[],
  env: Record<string, string> = {},
  hook = '',
): Promise<Ended> {
  const preload = `data:text/javascript,${encodeURIComponent(hook)}`;
  const child = spawn(process.execPath, ['--import', preload, builtEntry(name), ...args], {
    env: { PATH: process.env['PATH'], HOME: process.env['HOME'], DATA_DIR: dataDir, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (output += chunk.toString()));
  await once(child, 'close');
  return { code: child.exitCode, signal: child.signalCode, output };
}

/** Sends the process a signal right before it opens, renames or deletes a file of that name, the first time or a later one. */
const signalBefore = (signal: NodeJS.Signals, call: 'open' | 'rename' | 'rm', name: RegExp, time = 1) => `
  import fs from 'node:fs/promises';
  import { syncBuiltinESMExports } from 'node:module';
  const original = fs.${call};
  let times = 0;
  fs.${call} = (path, ...rest) => {
    if (${String(name)}.test(path) && ++times === ${time}) process.kill(process.pid, '${signal}');
    return original(path, ...rest);
  };
  syncBuiltinESMExports();`;

/** Makes a start of Postgres begin while the files of the previous one are being put back, if anything still starts it. */
const SLOW_TO_START = `
  import slow from 'node:fs/promises';
  import { syncBuiltinESMExports as exportSlow } from 'node:module';
  const { rename, stat } = slow;
  const afterwards = (ms, work) => new Promise((resolve) => setTimeout(resolve, ms)).then(work);
  slow.rename = (path, to) => afterwards(/postgres\\.replaced-[^/]+$/.test(path) ? 2000 : 0, () => rename(path, to));
  slow.stat = (path, ...rest) => afterwards(/\\/initdb$/.test(path) ? 500 : 0, () => stat(path, ...rest));
  exportSlow();`;

const keyFile = () => join(dataDir, 'encryption-key');

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'backup-'));
  // as root, Postgres runs as a user that must be able to enter
  await chmod(dir, 0o711);
  dataDir = join(dir, 'data');
  backup = join(dir, 'backup.tar.gz');
  await mkdir(join(dataDir, 'storage'), { recursive: true, mode: 0o711 });
  await writeFile(keyFile(), newEncryptionKey());
  const { keyId } = createSecrets({ current: Buffer.from(readFileSync(keyFile(), 'utf8'), 'base64') });
  await onPostgres(async (url) => {
    await migrateDatabase(url);
    const database = openDatabase(url, { max: 1 });
    await storeEmail(database, await storeAccount(database));
    await encryptionKeySince(database.db, keyId, new Date());
    await database.close();
  });
  await writeFile(join(dataDir, 'storage', 'mail'), 'before');
  expect(await run('backup', [backup])).toMatchObject({ code: 0 });
}, 120_000);
afterAll(() => rm(dir, { recursive: true, force: true, maxRetries: 5 }));

describe('npm run backup', () => {
  const other = () => join(dir, 'other.tar.gz');
  const refusal = async (env: Record<string, string>) => {
    const { code, output } = await run('backup', [other()], env);
    expect({ code, exists: existsSync(other()) }).toEqual({ code: 1, exists: false });
    return output.trim().split('\n').at(-1);
  };

  it('refuses a key that is not that of the database', async () => {
    expect(await refusal({ ENCRYPTION_KEY: newEncryptionKey() })).toMatch(
      /^ENCRYPTION_KEY is the key \w{16} here, and the database was last used with \w{16}: set it as for npm start\.$/,
    );
  }, 30_000);

  it('refuses a storage that holds nothing while the database names stored mail', async () => {
    const empty = join(dir, 'empty');
    for (const exists of [false, true]) {
      if (exists) await mkdir(empty);
      expect(await refusal({ STORAGE_URL: `file:${empty}` })).toBe(
        `STORAGE_URL names ${empty}, which holds nothing, and the database names mail that is stored: set it as for npm start.`,
      );
    }
  }, 30_000);

  it('copies the storage of the last start, and refuses to copy another', async () => {
    const elsewhere = join(dir, 'elsewhere');
    await mkdir(elsewhere);
    await writeFile(join(elsewhere, 'elsewhere'), 'mail');
    const data = await openDataDir(dataDir, () => {});
    data.recordStorage(`file://${elsewhere}/`);
    data.release();
    try {
      expect(await refusal({ STORAGE_URL: `file:${join(dataDir, 'storage')}` })).toMatch(
        /^STORAGE_URL names \S+storage here, and the last npm start stored mail in \S+elsewhere: set it as for npm start\.$/,
      );
      for (const env of [{}, { STORAGE_URL: `file:${elsewhere}` }]) {
        expect(await run('backup', [other()], env)).toMatchObject({ code: 0 });
        const listed = await promisify(execFile)('tar', ['-tzf', other()]);
        expect(listed.stdout).toContain('storage/elsewhere\n');
        await rm(other());
      }
    } finally {
      await rm(join(dataDir, 'storage-url'));
    }
  }, 60_000);

  it.each(['backup', 'restore', 'start'] as const)(
    'leaves a storage that contains the data folder alone (%s)',
    async (program) => {
      const link = join(dir, 'link-to-data');
      await symlink(dataDir, link);
      try {
        for (const folder of [dataDir, dir, link]) {
          const args = program === 'start' ? [] : [program === 'backup' ? other() : backup];
          const { code, output } = await run(program, args, { STORAGE_URL: `file:${folder}` });
          expect(output.trim().split('\n').at(-1)).toBe(
            `STORAGE_URL names ${folder}, which contains DATA_DIR, and so the encryption key: set it to a folder for mail alone, and move the mail there`,
          );
          expect(code).toBe(1);
        }
      } finally {
        await rm(link);
      }
      expect(existsSync(other())).toBe(false);
    },
    60_000,
  );

  it('refuses when a start takes over the lock of a dead one at the same moment', async () => {
    const lock = join(dataDir, 'lock');
    const theirs = JSON.stringify(handleOf(process.pid));
    await writeFile(lock, JSON.stringify({ pid: process.pid, began: 'long ago' }));
    const hook = `
      import fs from 'node:fs';
      import { syncBuiltinESMExports } from 'node:module';
      let isOver = false;
      for (const call of ['rmSync', 'renameSync']) {
        const original = fs[call];
        fs[call] = (path, ...rest) => {
          if (path === '${lock}' && !isOver) fs.writeFileSync(path, '${theirs}');
          isOver ||= path === '${lock}';
          return original(path, ...rest);
        };
      }
      syncBuiltinESMExports();`;
    try {
      const { code, output } = await run('backup', [other()], {}, hook);
      expect(output).toContain(`is in use by the start with pid ${process.pid}`);
      expect({ code, exists: existsSync(other()) }).toEqual({ code: 1, exists: false });
      expect(readFileSync(lock, 'utf8')).toBe(theirs);
      expect(readdirSync(dataDir).filter((name) => name.startsWith('lock'))).toEqual(['lock']);
    } finally {
      await rm(lock, { force: true });
      await rm(other(), { force: true });
    }
  }, 30_000);

  it('leaves no file that is not complete under its name', async () => {
    const hook = signalBefore('SIGTERM', 'open', /PG_VERSION$/);
    const stopped = await run('backup', [other()], {}, hook);
    expect(stopped).toMatchObject({ code: 1, output: expect.stringMatching(/Interrupted \(SIGTERM\)\.\n$/) });
    expect(readdirSync(dir).filter((name) => name.startsWith('other'))).toEqual([]);
    expect(await run('backup', [other()], {}, signalBefore('SIGKILL', 'rename', /\.part$/))).toMatchObject({
      signal: 'SIGKILL',
    });
    expect(existsSync(other())).toBe(false);
    expect(await refusal({})).toBe(
      `${other()}.part exists already: delete it if no backup is running, or name another file.`,
    );
    await rm(`${other()}.part`);
  }, 60_000);
});

describe('npm run restore', () => {
  const names = () => readdirSync(dataDir).filter((name) => !/^(lock|processes\.json|logs)/.test(name));
  const mail = (folder: string) => readFileSync(join(folder, 'mail'), 'utf8');
  const values = () => query<{ name: string }>("SELECT name FROM installation WHERE name IN ('since', 'epoch')");
  const restore = (hook?: string) => run('restore', [backup], {}, hook);
  let before: string[];

  beforeAll(async () => {
    await query("INSERT INTO installation (name, value) VALUES ('since', 'the backup')");
    await writeFile(join(dataDir, 'storage', 'mail'), 'since');
    await writeFile(join(dataDir, 'temporal.db'), 'since');
    before = names();
  });
  const expectUntouched = async () => {
    expect(names()).toEqual(before);
    expect(mail(join(dataDir, 'storage'))).toBe('since');
    expect(await values()).toEqual([{ name: 'since' }]);
  };

  it.each([
    ['it unpacks', 'rm', /storage\.unpacked$/],
    ['it has replaced anything', 'rename', /restore-unfinished\.new$/],
    ['it has started Postgres', 'rename', /temporal\.db$/],
  ] as const)(
    'puts everything back at a signal to end before %s',
    async (_when, call, name) => {
      const ended = await restore(signalBefore('SIGTERM', call, name) + SLOW_TO_START);
      expect(ended).toMatchObject({ code: 1, output: expect.stringMatching(/Interrupted \(SIGTERM\)\.\n$/) });
      await expectUntouched();
    },
    60_000,
  );

  it('leaves everything as it was when it is killed before it replaces anything', async () => {
    expect(await restore(signalBefore('SIGKILL', 'rename', /restore-unfinished\.new$/))).toMatchObject({
      signal: 'SIGKILL',
    });
    const unpacked = () => names().filter((name) => name.endsWith('.unpacked'));
    expect(unpacked()).toEqual(['postgres-password.unpacked', 'postgres.unpacked', 'storage.unpacked']);
    // the next start removes what it has unpacked
    expect(await values()).toEqual([{ name: 'since' }]);
    expect(unpacked()).toEqual([]);
    expect(mail(join(dataDir, 'storage'))).toBe('since');
  }, 60_000);

  it('refuses while the clock says that the backup is not made yet', async () => {
    const ended = await restore('Date.now = () => Date.parse("2020-02-02T02:02:02.000Z")');
    expect(ended).toMatchObject({
      code: 1,
      output: expect.stringMatching(
        /^the clock of this machine says 2020-02-02T02:02:02\.000Z, and \S+ was made at 20\S+Z: set the clock\.$/m,
      ),
    });
    await expectUntouched();
  }, 30_000);

  it('has to be run again when it is killed later: until then nothing starts', async () => {
    const steps = [
      ['rename', /\/postgres-password$/],
      ['rename', /\/postgres\.unpacked$/],
      ['rename', /\/temporal\.db$/],
      // everything is put back, and the second time: the store is marked
      ['rm', /\/restore-unfinished$/],
      ['rm', /\/restore-unfinished$/, 2],
      // the next one puts back what this one has replaced
      ['rename', /\/postgres\.replaced-[^/]+$/],
    ] as const;
    for (const [call, name, time] of steps) {
      const killed = await restore(signalBefore('SIGKILL', call, name, time));
      expect({ name, ...killed }).toMatchObject({ name, signal: 'SIGKILL' });
      for (const program of ['start', 'backup'] as const) {
        const refused = await run(program, program === 'backup' ? [join(dir, 'other.tar.gz')] : []);
        expect(refused.output).toContain(`has not finished: run it again, npm run restore -- ${backup}.`);
        expect(refused.code).toBe(1);
      }
    }
    // one that fails puts everything back, too
    const other = await run('restore', [join(dir, 'missing.tar.gz')]);
    expect(other).toMatchObject({ code: 1, output: expect.stringContaining('cannot be read (ENOENT)') });
    await expectUntouched();

    expect(await restore()).toMatchObject({ code: 0, output: expect.stringContaining('Restored 1 accounts as of') });
    expect(mail(join(dataDir, 'storage'))).toBe('before');
    expect(await values()).toEqual([{ name: 'epoch' }]);
    const [replaced = '', ...others] = names().filter((name) => name.startsWith('storage.replaced-'));
    expect(mail(join(dataDir, replaced))).toBe('since');
    expect(others).toEqual([]);
    expect(existsSync(join(dataDir, 'temporal.db'))).toBe(false);
  }, 240_000);

  it('replaces a storage behind a link, or whose URL ends with a slash', async () => {
    const elsewhere = join(dir, 'elsewhere');
    await rm(elsewhere, { recursive: true, force: true });
    await mkdir(elsewhere);
    const link = join(dir, 'link');
    await symlink(elsewhere, link);
    const STORAGE_URL = `file://${link}/`;
    expect(await run('restore', [backup], { STORAGE_URL })).toMatchObject({ code: 0 });
    expect(mail(elsewhere)).toBe('before');
    expect((await lstat(link)).isSymbolicLink()).toBe(true);
    expect(readdirSync(dir).filter((name) => name.startsWith('elsewhere.replaced-'))).toHaveLength(1);
  }, 60_000);

  it('refuses before it changes anything what it cannot rename, and a bucket for the mail of a folder', async () => {
    const files = names();
    const refusal = async (url: string) => {
      const { code, output } = await run('restore', [backup], { STORAGE_URL: url });
      expect({ code, files: names() }).toEqual({ code: 1, files });
      return output.trim().split('\n').at(-1);
    };
    // where this user may not write next to it, that is the reason
    expect(await refusal('file:/dev/shm')).toMatch(
      /^\/dev\/shm cannot be replaced \((it is a mount point|EACCES)\): set STORAGE_URL to a folder in it, such as file:\/\/\/dev\/shm\/restored, here and for npm start\.$/,
    );
    expect(existsSync('/dev/shm.unpacked')).toBe(false);
    expect(await refusal('s3://bucket/prefix')).toMatch(/holds mail and attachments, and STORAGE_URL names a bucket/);
  }, 60_000);
});
