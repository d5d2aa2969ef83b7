import { and, eq, gt, isNull, sql } from 'drizzle-orm';
import type { Queryable } from '../driver/client.ts';
import { accounts, uploads } from '../schema/index.ts';

/** Which table holds the data key of an owner of stored objects: an account, or an upload. */
export const dataKeyTable = (ownerId: string) => (ownerId.startsWith('upl_') ? 'uploads' : 'accounts');

/** Reads the sealed data key of an account or an upload; undefined when it has none or was removed. */
export async function readDataKey(db: Queryable, ownerId: string): Promise<Buffer | undefined> {
  const table = TABLES[dataKeyTable(ownerId)];
  const [row] = await db.select({ dataKey: table.dataKey }).from(table).where(eq(table.id, ownerId));
  return row?.dataKey ?? undefined;
}

/**
 * Stores a data key unless the account or the upload has one; returns the stored one. Undefined: it was or is being removed.
 */
export async function saveDataKey(db: Queryable, ownerId: string, sealed: Buffer): Promise<Buffer | undefined> {
  const table = TABLES[dataKeyTable(ownerId)];
  const isStored = table === accounts ? isNull(accounts.removedAt) : gt(uploads.expiresAt, sql`now()`);
  const [row] = await db
    .update(table)
    .set({ dataKey: sql`coalesce(${table.dataKey}, ${sealed}::bytea)` })
    .where(and(eq(table.id, ownerId), isStored))
    .returning({ dataKey: table.dataKey });
  return row?.dataKey ?? undefined;
}

const TABLES = { accounts, uploads };
