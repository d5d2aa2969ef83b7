import { sql } from 'drizzle-orm';
import type { Queryable } from '../driver/client.ts';

/** Now, by the clock of the database: for comparisons with times that it has set, since the clock of this machine may differ. */
export async function databaseNow(db: Queryable): Promise<Date> {
  const { rows } = await db.execute<{ ms: number }>(
    sql`select (1000 * extract(epoch from clock_timestamp()))::float8 as ms`,
  );
  return new Date(rows[0]?.ms ?? Date.now());
}
