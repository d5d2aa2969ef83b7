import { and, eq, isNull, sql } from 'drizzle-orm';
import type { Queryable } from '../driver/client.ts';
import { idempotencyKeys } from '../schema/index.ts';

/** A key and its owner: different API keys may use the same key. */
export interface IdempotencyKey {
  apiKeyId: string;
  key: string;
}

/** The request that has a key. */
export interface StoredCall {
  fingerprint: Buffer;
  /** the id of what the request creates, where its route reserves one */
  reservedId: string | null;
  /** null while it runs */
  response: { status: number; sealedBody: Buffer } | null;
}

/** The first response is repeated for this long. */
const LIFETIME = sql`interval '24 hours'`;
/** A request without a response by then died with its process. */
const LONGEST_CALL = sql`interval '3 minutes'`;

/**
 * Reserves a key for a request that is about to run, with the id that is reserved for what it creates. Undefined:
 * reserved, run the request; else the request that has the key.
 */
export async function reserveKey(
  db: Queryable,
  { apiKeyId, key }: IdempotencyKey,
  fingerprint: Buffer,
  reservedId: string | null = null,
): Promise<StoredCall | undefined> {
  for (;;) {
    const taken = await db
      .insert(idempotencyKeys)
      .values({ apiKeyId, key, fingerprint, reservedId, createdAt: sql`now()` })
      .onConflictDoUpdate({
        target: [idempotencyKeys.apiKeyId, idempotencyKeys.key],
        set: { fingerprint, reservedId, status: null, response: null, createdAt: sql`now()` },
        // A request that reserved an id runs again under that id, regardless of how the first one ended.
        setWhere: sql`${idempotencyKeys.createdAt} < now() - ${LIFETIME} or (${idempotencyKeys.status} is null
          and ${idempotencyKeys.reservedId} is null and ${idempotencyKeys.createdAt} < now() - ${LONGEST_CALL})`,
      })
      .returning({ key: idempotencyKeys.key });
    if (taken.length > 0) return undefined;
    const call = await readKey(db, { apiKeyId, key });
    // released in the meantime: reserve it again
    if (call) return call;
  }
}

/** The request that has a key; undefined when none has it. */
export async function readKey(db: Queryable, { apiKeyId, key }: IdempotencyKey): Promise<StoredCall | undefined> {
  const [row] = await db.select().from(idempotencyKeys).where(same({ apiKeyId, key }));
  if (!row) return undefined;
  const { fingerprint, reservedId, status, response } = row;
  return { fingerprint, reservedId, response: status !== null && response ? { status, sealedBody: response } : null };
}

/** The call for which an id is reserved; undefined: none with a key. Reads the whole table, which has the calls of 24 hours. */
export async function callOfReserved(
  db: Queryable,
  reservedId: string,
): Promise<(IdempotencyKey & { fingerprint: Buffer }) | undefined> {
  const { apiKeyId, key, fingerprint } = idempotencyKeys;
  const [row] = await db
    .select({ apiKeyId, key, fingerprint })
    .from(idempotencyKeys)
    .where(eq(idempotencyKeys.reservedId, reservedId));
  return row;
}

/** Stores the response of the request that has a key. False: the key is released, or has a response, which does not change. */
export async function storeResponse(
  db: Queryable,
  key: IdempotencyKey,
  answer: { status: number; sealedBody: Buffer; accountId?: string | undefined },
): Promise<boolean> {
  const { status, sealedBody: response, accountId = null } = answer;
  const unanswered = and(same(key), isNull(idempotencyKeys.status));
  const { rowCount } = await db.update(idempotencyKeys).set({ status, response, accountId }).where(unanswered);
  return rowCount === 1;
}

/** Releases a key: its request did nothing. One with a stored response stays: what failed is the confirmation of the commit. */
export async function releaseKey(db: Queryable, key: IdempotencyKey): Promise<void> {
  await db.delete(idempotencyKeys).where(and(same(key), isNull(idempotencyKeys.status)));
}

function same({ apiKeyId, key }: IdempotencyKey) {
  return and(eq(idempotencyKeys.apiKeyId, apiKeyId), eq(idempotencyKeys.key, key));
}
