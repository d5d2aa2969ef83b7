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

/**
 * Since when the installation has this encryption key; `keyId` says which one it is. The first one that is ever recorded
 * counts as always there.
 */
export async function encryptionKeySince(db: Db, keyId: string, now: Date): Promise<Date> {
  await db.execute(sql`
    insert into installation (name, value) values ('encryption_key', ${`${keyId} ${new Date(0).toISOString()}`})
    on conflict (name) do update set value = ${`${keyId} ${now.toISOString()}`}
    where split_part(installation.value, ' ', 1) <> ${keyId}`);
  const { rows } = await db.execute<{ since: string }>(sql`
    select split_part(value, ' ', 2) as since from installation where name = 'encryption_key'`);
  return new Date(rows[0]?.since ?? 0);
}
