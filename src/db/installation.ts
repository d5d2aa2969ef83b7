import { sql } from 'drizzle-orm';
import type { Db } from './client.ts';

/** Stores a value of the whole installation. True when another one was stored before: one caller alone gets that. */
export async function replaceInstallationValue(db: Db, name: string, value: string): Promise<boolean> {
  const { rows } = await db.execute<{ is_new: boolean }>(sql`
    insert into installation (name, value) values (${name}, ${value})
    on conflict (name) do update set value = excluded.value where installation.value <> excluded.value
    returning xmax = 0 as is_new`);
  return rows[0]?.is_new === false;
}
