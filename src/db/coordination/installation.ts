import { eq, sql } from 'drizzle-orm';
import type { Db } from '../driver/client.ts';
import { installation } from '../schema/index.ts';

/** Reads a value of the whole installation; undefined when it was never set. */
export async function getInstallationValue(db: Db, name: string): Promise<string | undefined> {
  const [row] = await db.select().from(installation).where(eq(installation.name, name));
  return row?.value;
}

/** Stores a value of the whole installation. */
export async function setInstallationValue(db: Db, name: string, value: string): Promise<void> {
  await db
    .insert(installation)
    .values({ name, value })
    .onConflictDoUpdate({ target: installation.name, set: { value } });
}

/** The id of the encryption key that the installation used last, and since when; undefined before its first start. */
export async function knownEncryptionKey(db: Db): Promise<{ keyId: string; since: Date } | undefined> {
  const [keyId, since] = (await getInstallationValue(db, 'encryption_key'))?.split(' ') ?? [];
  return keyId === undefined || since === undefined ? undefined : { keyId, since: new Date(since) };
}

/**
 * Returns since when the installation has used the encryption key `keyId`. The first recorded key counts as used from the
 * beginning.
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
