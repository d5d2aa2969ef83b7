import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { OLDEST_PROGRAM } from '../../src/db/driver/versions.ts';
import { UnusableDatabase } from '../../src/db/driver/unusable.ts';
import { migrate } from '../../src/db/open.ts';
import { projectRoot } from '../../src/runtime/project-root.ts';
import { VERSION } from '../../src/runtime/version.ts';
import { builtEntry } from '../helpers/product/built.ts';
import { freePort } from '../helpers/servers/free-port.ts';
import { type TestDatabase, testDatabase } from '../helpers/servers/postgres.ts';
import { testTemporal } from '../helpers/servers/temporal.ts';

/** Databases of later versions, and of other programs. */

const MIGRATIONS = new URL('../../src/db/migrations/', import.meta.url);
/** Of columns that programs of the version before never read where they are null. */
const NULLABLE = /^ALTER TABLE "persons" ALTER COLUMN "(issuer|subject|signed_in_at)" DROP NOT NULL;$/;
/** What the planner knows of a column, which changes no result. */
const STATISTICS = /^(ANALYZE |ALTER TABLE "\w+" ALTER COLUMN "\w+" SET \(n_distinct)/;
/** Whether programs of the version before may do without this statement; `created`: tables of the same migration. */
const adds = (statement: string, created: readonly string[]) =>
  created.some((table) => statement.startsWith(`ALTER TABLE "${table}" `) || statement.includes(` ON "${table}" `)) ||
  /^(CREATE (TABLE|FUNCTION|TRIGGER)|(CREATE|DROP) INDEX|INSERT INTO) /.test(statement) ||
  NULLABLE.test(statement) ||
  STATISTICS.test(statement) ||
  (/^ALTER TABLE "\w+" ADD COLUMN /.test(statement) && (/ DEFAULT /.test(statement) || !/NOT NULL/.test(statement)));

interface Journal {
  entries: { tag: string; when: number }[];
}
const { entries } = JSON.parse(readFileSync(new URL('meta/_journal.json', MIGRATIONS), 'utf8')) as Journal;
const LAST = entries.at(-1)?.when ?? 0;

let test: TestDatabase;
beforeEach(async () => {
  test = await testDatabase({ max: 2 });
});
afterEach(() => test.drop());

/** As a later version leaves it: a migration that this one lacks, and the oldest program that can use the database. */
async function migratedByLater(oldestProgram: number): Promise<void> {
  await test.database.pool.query('ALTER TABLE accounts ADD COLUMN later text');
  await test.database.pool.query(`INSERT INTO drizzle.__drizzle_migrations (hash, created_at) VALUES ('later', $1)`, [
    LAST + 1000,
  ]);
  await test.database.pool.query(`UPDATE installation SET value = $1 WHERE name = 'oldest_program'`, [
    `${oldestProgram} 7.8.9`,
  ]);
}

const oldestProgram = async () =>
  (await test.database.pool.query(`SELECT value FROM installation WHERE name = 'oldest_program'`)).rows;

it('migrations after the one that the oldest program has only add', () => {
  expect(entries.map(({ when }) => when)).toContain(OLDEST_PROGRAM);
  for (const { tag } of entries.filter(({ when }) => when > OLDEST_PROGRAM)) {
    const text = readFileSync(new URL(`${tag}.sql`, MIGRATIONS), 'utf8');
    const statements = text.split('--> statement-breakpoint').map((one) => one.replace(/^(\s|--.*\n)+/, ''));
    const created = [...text.matchAll(/^CREATE TABLE "(\w+)"/gm)].map(([, table]) => table ?? '');
    // else raise OLDEST_PROGRAM to this migration
    expect(statements.filter((one) => !adds(one, created))).toEqual([]);
  }
});

it('a database records which programs can use it', async () => {
  expect(await oldestProgram()).toEqual([{ value: `${OLDEST_PROGRAM} ${VERSION}` }]);
});

it('a later version that only added leaves a database that this one works with, and its record stays', async () => {
  await migratedByLater(LAST);
  const record = await oldestProgram();
  await migrate(test.database);
  expect(await oldestProgram()).toEqual(record);
});

it('a table of another program is not treated as one of this product', async () => {
  await test.database.pool.query('DROP SCHEMA drizzle CASCADE');
  const migrating = migrate(test.database);
  await expect(migrating).rejects.toThrow(UnusableDatabase);
  await expect(migrating).rejects.toThrow(/^This database has a table "accounts", but no record of the migrations/);
});

describe('a database that needs a later version', () => {
  beforeEach(() => migratedByLater(LAST + 1000));

  it.each(['server', 'worker', 'start'] as const)(
    'is refused by %s with one line, and is left as it was',
    async (name) => {
      const before = await oldestProgram();
      const { code, output } = await end(name);
      expect(code).toBe(1);
      const lines = output.split('\n').filter((line) => line !== '' && !line.startsWith('{'));
      expect(lines.at(-1)).toBe(
        `This database was migrated by version 7.8.9, and this program is version ${VERSION}, which is too old for it: ` +
          'start 7.8.9 or a later one, or restore the backup that was made before the upgrade.',
      );
      expect(output).not.toContain('process failed');
      expect(await oldestProgram()).toEqual(before);
    },
    60_000,
  );
});

/** Runs a process of the product on the database until it exits. */
async function end(name: 'server' | 'worker' | 'start'): Promise<{ code: number | null; output: string }> {
  const dir = await mkdtemp(join(tmpdir(), 'versions-'));
  const { address, namespace } = testTemporal();
  const child = spawn(process.execPath, [builtEntry(name)], {
    cwd: projectRoot(),
    env: {
      PATH: process.env['PATH'],
      DATABASE_URL: test.url,
      TEMPORAL_ADDRESS: address,
      TEMPORAL_NAMESPACE: namespace,
      DATA_DIR: dir,
      PORT: String(await freePort()),
      ENCRYPTION_KEY: randomBytes(32).toString('base64'),
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (output += chunk.toString()));
  await once(child, 'close');
  await rm(dir, { recursive: true, force: true });
  return { code: child.exitCode, output };
}
