import { and, eq, isNull, sql } from 'drizzle-orm';
import type { Queryable } from '../driver/client.ts';
import { accounts } from '../schema/index.ts';

/** Reads the sealed data key of an account; undefined when it has none or was removed. */
export async function readDataKey(db: Queryable, accountId: string): Promise<Buffer | undefined> {
  const [row] = await db.select({ dataKey: accounts.dataKey }).from(accounts).where(eq(accounts.id, accountId));
  return row?.dataKey ?? undefined;
}

/**
 * Stores a data key unless the account has one; returns the stored one. Undefined: the account was or is being removed.
 */
export async function saveDataKey(db: Queryable, accountId: string, sealed: Buffer): Promise<Buffer | undefined> {
  const [row] = await db
    .update(accounts)
    .set({ dataKey: sql`coalesce(${accounts.dataKey}, ${sealed}::bytea)` })
    .where(and(eq(accounts.id, accountId), isNull(accounts.removedAt)))
    .returning({ dataKey: accounts.dataKey });
  return row?.dataKey ?? undefined;
}
