import { and, eq, isNull, lt } from 'drizzle-orm';
import type { Queryable, Tx } from './client.ts';
import { connectIntents } from './schema.ts';

/** Where an intent lies, for sealing it. */
export const intentPlace = (id: string) => ({ table: 'connect_intents', column: 'intent', id });

/** Keeps what a caller sent, sealed, while the mailbox is being tried. */
export async function saveIntent(db: Queryable, id: string, sealed: Buffer, at: Date): Promise<void> {
  await db.insert(connectIntents).values({ id, intent: sealed, createdAt: at });
}

/** What the caller sent, or the account that it has led to. Undefined: the caller was answered, nothing may be saved. */
export async function readIntent(
  db: Queryable,
  id: string,
): Promise<{ sealed: Buffer; accountId: null } | { accountId: string } | undefined> {
  const [row] = await db.select().from(connectIntents).where(eq(connectIntents.id, id));
  if (!row) return undefined;
  return row.accountId === null ? { sealed: row.intent, accountId: null } : { accountId: row.accountId };
}

/**
 * Ties the account to the intent, in the transaction that saves it, and forgets the credentials in the intent.
 * False: the caller was told meanwhile that nothing is saved, so the transaction must be rolled back.
 */
export async function settleIntent(tx: Tx, id: string, accountId: string): Promise<boolean> {
  const rows = await tx
    .update(connectIntents)
    .set({ accountId, intent: Buffer.alloc(0) })
    .where(and(eq(connectIntents.id, id), isNull(connectIntents.accountId)))
    .returning({ id: connectIntents.id });
  return rows.length > 0;
}

/** Ends an intent: the account that it has led to, undefined when there is none, and from now on there will be none. */
export async function dropIntent(db: Queryable, id: string): Promise<string | undefined> {
  const [row] = await db.delete(connectIntents).where(eq(connectIntents.id, id)).returning();
  return row?.accountId ?? undefined;
}

/** Forgets the intents of callers that went away before they were answered. */
export async function dropIntentsBefore(db: Queryable, before: Date): Promise<void> {
  await db.delete(connectIntents).where(lt(connectIntents.createdAt, before));
}
