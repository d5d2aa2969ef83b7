import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import pg from 'pg';
import { migrate, openDatabase } from '../../src/db/open.ts';
import { codeBlocks, read } from '../helpers/assert/markdown.ts';
import { storeAccount } from '../helpers/product/stored-account.ts';
import { type TestDatabase, testDatabase } from '../helpers/servers/postgres.ts';

/** The lines of docs/operating.md that dump and restore a Postgres of the operator's own. */

const [, , DUMP = '', RESTORE = ''] = codeBlocks(read(join(import.meta.dirname, '..', '..'), 'docs/operating.md'))
  .filter(({ language }) => language === 'sh')
  .map(({ text }) => text);

/** Whether pg_dump of this machine dumps the server: it refuses newer ones. The embedded Postgres comes without it. */
async function canDump(): Promise<boolean> {
  const admin = new pg.Client({ connectionString: process.env['TEST_POSTGRES_URL'] });
  await admin.connect();
  const { rows } = await admin.query<{ server_version: string }>('show server_version');
  await admin.end();
  const { stdout } = spawnSync('pg_dump', ['--version'], { encoding: 'utf8' });
  return parseInt(/\d+/.exec(stdout ?? '')?.[0] ?? '0') >= parseInt(rows[0]?.server_version ?? '');
}

let source: TestDatabase;
let dir: string;
beforeAll(async () => {
  source = await testDatabase();
  dir = await mkdtemp(join(tmpdir(), 'dump-'));
});
afterAll(async () => {
  await source.drop();
  await rm(dir, { recursive: true, force: true });
});

/** The number of rows of each table. */
async function counts(pool: pg.Pool): Promise<Record<string, number>> {
  const { rows } = await pool.query<{ name: string }>(
    `select format('%I.%I', schemaname, relname) as name from pg_stat_user_tables order by 1`,
  );
  const found: Record<string, number> = {};
  for (const { name } of rows) {
    found[name] = (await pool.query<{ count: number }>(`select count(*)::int from ${name}`)).rows[0]?.count ?? -1;
  }
  return found;
}

((await canDump()) ? it : it.skip)(
  'a dump that is restored is whole, and needs no migration',
  async () => {
    await storeAccount(source.database);
    const run = (lines: string, url: string) =>
      execFileSync('sh', ['-ec', lines], { cwd: dir, env: { PATH: process.env['PATH'], DATABASE_URL: url } });
    run(DUMP, source.url);
    const name = `restored_${Date.now()}`;
    const url = new URL(source.url);
    url.pathname = `/${name}`;
    await source.database.pool.query(`create database ${name} template template0`);
    const target = openDatabase(url.href, { max: 2 });
    try {
      run(RESTORE, url.href);
      const before = await counts(target.pool);
      expect(before).toEqual(await counts(source.database.pool));
      expect(before['public.accounts']).toBe(1);
      await migrate(target);
      expect(await counts(target.pool)).toEqual(before);
    } finally {
      await target.close();
      await source.database.pool.query(`drop database ${name} with (force)`);
    }
  },
  60_000,
);
