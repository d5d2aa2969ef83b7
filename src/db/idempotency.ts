import { and, eq, sql } from 'drizzle-orm';
import type { Queryable } from './client.ts';
import { idempotencyKeys } from './schema.ts';

/** Whose key it is: keys of different API keys are apart. */
export interface IdempotencyKey {
  apiKeyId: string;
  key: string;
}

/** How the call that has a key stands. */
export interface KeptCall {
  fingerprint: Buffer;
  /** the id of what the call makes, where its route reserves one */
  reservedId: string | null;
  /** null while it is under way */
  answer: { status: number; sealedBody: Buffer } | null;
}

/** First answers are given again for this long (CONTRACT "General"). */
const KEPT = sql`interval '24 hours'`;
/** A call that has not ended by then died with its process. */
const LONGEST_CALL = sql`interval '3 minutes'`;

/**
 * Takes a key for a call that is about to be made, with the id that is reserved for what it makes. Undefined: it is
 * taken, go on; else the call that has it.
 */
export async function takeKey(
  db: Queryable,
  { apiKeyId, key }: IdempotencyKey,
  fingerprint: Buffer,
  reservedId: string | null = null,
): Promise<KeptCall | undefined> {
  for (;;) {
    const taken = await db
      .insert(idempotencyKeys)
      .values({ apiKeyId, key, fingerprint, reservedId, createdAt: sql`now()` })
      .onConflictDoUpdate({
        target: [idempotencyKeys.apiKeyId, idempotencyKeys.key],
        set: { fingerprint, reservedId, status: null, response: null, createdAt: sql`now()` },
        // What reserved an id is made again under that id, however the first call ended.
        setWhere: sql`${idempotencyKeys.createdAt} < now() - ${KEPT} or (${idempotencyKeys.status} is null
          and ${idempotencyKeys.reservedId} is null and ${idempotencyKeys.createdAt} < now() - ${LONGEST_CALL})`,
      })
      .returning({ key: idempotencyKeys.key });
    if (taken.length > 0) return undefined;
    const call = await readKey(db, { apiKeyId, key });
    // given back in the meantime: try again
    if (call) return call;
  }
}

/** The call that has a key; undefined when none has it (any more). */
export async function readKey(db: Queryable, { apiKeyId, key }: IdempotencyKey): Promise<KeptCall | undefined> {
  const [row] = await db.select().from(idempotencyKeys).where(same({ apiKeyId, key }));
  if (!row) return undefined;
  const { fingerprint, reservedId, status, response } = row;
  return { fingerprint, reservedId, answer: status !== null && response ? { status, sealedBody: response } : null };
}

/** Keeps the answer of the call that has a key. */
export async function keepAnswer(
  db: Queryable,
  key: IdempotencyKey,
  answer: { status: number; sealedBody: Buffer },
): Promise<void> {
  await db.update(idempotencyKeys).set({ status: answer.status, response: answer.sealedBody }).where(same(key));
}

/** Gives a key back: its call did nothing. */
export async function releaseKey(db: Queryable, key: IdempotencyKey): Promise<void> {
  await db.delete(idempotencyKeys).where(same(key));
}

function same({ apiKeyId, key }: IdempotencyKey) {
  return and(eq(idempotencyKeys.apiKeyId, apiKeyId), eq(idempotencyKeys.key, key));
}
