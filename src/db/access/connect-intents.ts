import { and, eq, isNull, lt } from 'drizzle-orm';
import type { Queryable, Tx } from '../driver/client.ts';
import { connectIntents } from '../schema/index.ts';

/** The column that holds an intent, for sealing it. */
export const intentLocation = (id: string) => ({ table: 'connect_intents', column: 'intent', id });

/** Stores what a caller sent, sealed, while the logins are verified. Repeated, it stores nothing: the result of its commit may be lost. */
export async function saveIntent(db: Queryable, id: string, sealed: Buffer, at: Date): Promise<void> {
  await db.insert(connectIntents).values({ id, intent: sealed, createdAt: at }).onConflictDoNothing();
}

/** Reads what the caller sent, or the account saved for it. Undefined: the request was already answered; save nothing. */
export async function readIntent(
  db: Queryable,
  id: string,
): Promise<{ sealed: Buffer; accountId: null } | { accountId: string } | undefined> {
  const [row] = await db.select().from(connectIntents).where(eq(connectIntents.id, id));
  if (!row) return undefined;
  return row.accountId === null ? { sealed: row.intent, accountId: null } : { accountId: row.accountId };
}

/** Replaces what is sealed in an intent that has not been answered. */
export async function replaceIntent(db: Queryable, id: string, sealed: Buffer): Promise<void> {
  await db
    .update(connectIntents)
    .set({ intent: sealed })
    .where(and(eq(connectIntents.id, id), isNull(connectIntents.accountId)));
}

/**
 * Links the intent to the account, in the transaction that saves the account, and deletes the credentials in the intent.
 * False: the caller was already informed that nothing is saved; roll the transaction back.
 */
export async function linkIntent(tx: Tx, id: string, accountId: string): Promise<boolean> {
  const rows = await tx
    .update(connectIntents)
    .set({ accountId, intent: Buffer.alloc(0) })
    .where(and(eq(connectIntents.id, id), isNull(connectIntents.accountId)))
    .returning({ id: connectIntents.id });
  return rows.length > 0;
}

/** Deletes an intent, for which no account can be saved afterwards. Returns the account that was saved, if any. */
export async function deleteIntent(db: Queryable, id: string): Promise<string | undefined> {
  const [row] = await db.delete(connectIntents).where(eq(connectIntents.id, id)).returning();
  return row?.accountId ?? undefined;
}

/** Deletes the intents of callers that disconnected before their response. */
export async function deleteIntentsBefore(db: Queryable, before: Date): Promise<void> {
  await db.delete(connectIntents).where(lt(connectIntents.createdAt, before));
}
