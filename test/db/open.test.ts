import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { sql } from 'drizzle-orm';
import type { Database } from '../../src/db/driver/client.ts';
import { unavailablePart } from '../../src/outage.ts';
import { migrate, openDatabase } from '../../src/db/open.ts';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Socket } from 'node:net';
import { waitFor } from '../helpers/assert/wait.ts';
import { waitForCollected } from '../helpers/fakes/garbage.ts';
import { startTcpProxy } from '../helpers/fakes/tcp-proxy.ts';
import { type TestDatabase, testDatabase } from '../helpers/servers/postgres.ts';

describe('the database', () => {
  let test: TestDatabase;
  beforeAll(async () => {
    test = await testDatabase();
  });
  afterAll(() => test.drop());

  it.each(['日本語テスト', 'ünïcode', 'Привет', 'שלום', 'ไทย'])('treats the letters of %s as letters', async (word) => {
    const { rows } = await test.database.pool.query('SELECT show_trgm($1) AS trigrams', [word]);
    expect(rows[0].trigrams.length).toBeGreaterThan(2);
  });

  it('stores dates as they are, also those before time zones had whole minutes', async () => {
    const zone = process.env['TZ'];
    process.env['TZ'] = 'Europe/Berlin';
    try {
      const date = new Date('0001-01-01T00:00:00Z');
      const { rows } = await test.database.pool.query('SELECT extract(epoch FROM $1::timestamptz)::float8 AS s', [
        date,
      ]);
      expect(rows[0].s * 1000).toBe(date.getTime());
    } finally {
      if (zone === undefined) delete process.env['TZ'];
      else process.env['TZ'] = zone;
    }
  });

  it.each([undefined, { connectMs: 5000, queryMs: 5000 }])(
    'lets go of what was read on a new connection',
    async (patience) => {
      const { pool, close } = openDatabase(test.url, { max: 1, ...(patience && { patience }) });
      // the first query opens a connection
      const read = async () => new WeakRef((await pool.query("SELECT 'a mail' AS text")).rows[0] as object);
      try {
        const row = await read();
        await waitForCollected(row, 'the row of the first query');
        expect(pool.totalCount).toBe(1);
      } finally {
        await close();
      }
    },
  );

  it('waits for a slow statement while the database is alive, and fails one whose database has vanished', async () => {
    const url = new URL(test.url);
    const proxy = await startTcpProxy(Number(url.port));
    url.host = `127.0.0.1:${proxy.port}`;
    const { pool, close } = openDatabase(url.href, { max: 1, patience: { queryMs: 200, connectMs: 1_000 } });
    try {
      await pool.query('SELECT pg_sleep(2)');
      const failing = expect(pool.query('SELECT pg_sleep(30)')).rejects.toThrow('Connection terminated');
      proxy.silence();
      await failing;
    } finally {
      await proxy.close();
      await close();
    }
  }, 10_000);

  it.each([
    ['a statement', 'SELECT 1'],
    ['the response of a statement', 'SELECT pg_sleep(1)'],
  ])('fails a statement whose connection has lost %s, while new connections work', async (what, text) => {
    const url = new URL(test.url);
    const proxy = await startTcpProxy(Number(url.port));
    url.host = `127.0.0.1:${proxy.port}`;
    const { pool, close } = openDatabase(url.href, { max: 1, patience: { queryMs: 200, connectMs: 5_000 } });
    try {
      await pool.query('SELECT 1');
      if (what === 'a statement') proxy.freeze();
      const failing = expect(pool.query(text)).rejects.toThrow('Connection terminated');
      const isWorking = `SELECT FROM pg_stat_activity WHERE query = $1 AND state = 'active' AND datname = current_database()`;
      if (what !== 'a statement') {
        await waitFor(async () => (await test.database.pool.query(isWorking, [text])).rowCount === 1);
        proxy.freeze();
      }
      await failing;
      expect((await pool.query('SELECT 2 AS n')).rows).toEqual([{ n: 2 }]);
    } finally {
      await proxy.close();
      await close();
    }
  });

  it('waits for a response that takes long to arrive', async () => {
    const url = new URL(test.url);
    const proxy = await startTcpProxy(Number(url.port));
    url.host = `127.0.0.1:${proxy.port}`;
    const { pool, close } = openDatabase(url.href, { max: 1, patience: { queryMs: 200, connectMs: 5_000 } });
    try {
      await pool.query('SELECT 1');
      proxy.slow(100);
      const { rows } = await pool.query(`SELECT repeat('x', 1000000) AS text`);
      expect(rows[0].text).toHaveLength(1_000_000);
    } finally {
      await proxy.close();
      await close();
    }
  });

  it('ends a session that no longer works on its transaction after a minute', async () => {
    const { rows } = await test.database.pool.query('SHOW idle_in_transaction_session_timeout');
    expect(rows).toEqual([{ idle_in_transaction_session_timeout: '1min' }]);
  });

  describe.each([undefined, { connectMs: 5000, queryMs: 5000 }])('with connections that break', (patience) => {
    const open = (max: number) => openDatabase(test.url, { max, ...(patience && { patience }) });
    const one = async ({ db }: Database) => (await db.transaction((tx) => tx.execute(sql`select 1 as n`))).rows;

    it('has a connection for the next transaction after one could not begin', async () => {
      const database = open(1);
      try {
        await one(database);
        database.pool.once('acquire', (client) => void streamOf(client).destroy());
        await expect(one(database)).rejects.toThrow('begin');
        expect(await one(database)).toEqual([{ n: 1 }]);
      } finally {
        await database.close();
      }
    });

    it('reports why a transaction failed that could not be rolled back, and uses another connection for the next', async () => {
      const database = open(1);
      const refused = new Error('refused');
      try {
        const failing = database.db.transaction(async (tx) => {
          await tx.execute(sql`select pg_terminate_backend(pg_backend_pid())`).catch(() => {});
          throw refused;
        });
        await expect(failing).rejects.toBe(refused);
        expect(await one(database)).toEqual([{ n: 1 }]);
      } finally {
        await database.close();
      }
    });

    it('keeps the connection of a transaction that was rolled back', async () => {
      const database = open(1);
      const pid = async (fails: boolean) => {
        let id: unknown;
        const running = database.db.transaction(async (tx) => {
          id = (await tx.execute(sql`select pg_backend_pid() as id`)).rows[0]?.['id'];
          if (fails) throw new Error('refused');
        });
        await (fails ? expect(running).rejects.toThrow('refused') : running);
        return id;
      };
      try {
        expect(await pid(true)).toBe(await pid(false));
      } finally {
        await database.close();
      }
    });

    it.each(['as it is', 'as the cause of another error'])(
      'replaces a connection to a database that only reads, the error %s',
      async (form) => {
        const database = open(1);
        try {
          await database.pool.query(`set default_transaction_read_only = on`);
          const failing = database.db.transaction(async (tx) => {
            await tx.execute(sql`create table never (n int)`).catch((cause: unknown) => {
              throw form === 'as it is' ? cause : new Error('not stored', { cause });
            });
          });
          const error = await failing.catch((err: unknown) => err);
          expect(unavailablePart(error)).toMatchObject({ part: 'database' });
          await database.db.transaction((tx) => tx.execute(sql`create temporary table stored (n int)`));
        } finally {
          await database.close();
        }
      },
    );

    it('replaces all connections after many have broken', async () => {
      const database = open(4);
      let isWorking = true;
      const work = async () => {
        while (isWorking) await one(database).catch(() => {});
      };
      const working = Array.from({ length: 8 }, work);
      try {
        for (let round = 0; round < 40; round++) {
          await test.database.pool.query(
            `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`,
          );
          await sleep(10);
        }
        isWorking = false;
        await Promise.all(working);
        expect(await Promise.all(Array.from({ length: 4 }, () => one(database)))).toHaveLength(4);
        expect(database.pool.idleCount).toBe(database.pool.totalCount);
      } finally {
        isWorking = false;
        await database.close();
      }
    });
  });

  it('migrates once when several processes start at the same time', async () => {
    const name = `${new URL(test.url).pathname.slice(1)}_empty`;
    await test.database.pool.query(`CREATE DATABASE ${name}`);
    const url = test.url.replace(/\/[^/]+$/, `/${name}`);
    const databases = [1, 2, 3].map(() => openDatabase(url));
    try {
      await Promise.all(databases.map((database) => migrate(database)));
      const { rows } = await databases[0]!.pool.query('SELECT count(*)::int AS n FROM drizzle.__drizzle_migrations');
      expect(rows[0].n).toBeGreaterThan(0);
      await migrate(databases[1]!);
      const again = await databases[0]!.pool.query('SELECT count(*)::int AS n FROM drizzle.__drizzle_migrations');
      expect(again.rows).toEqual(rows);
    } finally {
      await Promise.all(databases.map((database) => database.close()));
      await test.database.pool.query(`DROP DATABASE ${name} WITH (FORCE)`);
    }
  });
});

/** The socket of a client of pg. */
function streamOf(client: unknown): Socket {
  return (client as { connection: { stream: Socket } }).connection.stream;
}
