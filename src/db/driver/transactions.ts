import { NodePgSession } from 'drizzle-orm/node-postgres';
import { PgDialect } from 'drizzle-orm/pg-core';
import type pg from 'pg';
import { isReadOnly } from '../../outage.ts';
import type { Db, Tx } from './client.ts';

/**
 * `transaction` of a database. Drizzle's own has two faults when a connection breaks: when `begin` fails, the pool never
 * gets the connection back (https://github.com/drizzle-team/drizzle-orm/issues/6241), and when `rollback` fails, it gets
 * back a broken one, and the caller does not get the original error. A connection to a database that only reads is closed, too.
 */
export function transactionsOn(pool: pg.Pool): Db['transaction'] {
  const dialect = new PgDialect();
  return async (work, config) => {
    const client = await pool.connect();
    let failure: { error: unknown } | undefined;
    let isSound = false;
    try {
      const session = new NodePgSession(client, dialect, undefined);
      const result = await session.transaction(async (tx) => {
        try {
          return await work(tx as Tx);
        } catch (error) {
          failure = { error };
          throw error;
        }
      }, config);
      isSound = true;
      return result;
    } catch (error) {
      // rolled back
      isSound = failure?.error === error && !isReadOnly(error);
      throw failure ? failure.error : error;
    } finally {
      client.release(!isSound);
    }
  };
}
