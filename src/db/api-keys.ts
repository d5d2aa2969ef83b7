import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { and, asc, eq, like, ne, sql } from 'drizzle-orm';
import type pg from 'pg';
import type { ApiKey } from '../contract/api-key.ts';
import { isId } from '../contract/ids.ts';
import { newId } from '../new-id.ts';
import type { Db, Queryable } from './client.ts';
import { apiKeys } from './schema.ts';

/*
 * A key is `mbx_<12 hex>_<64 hex>`: what stands before the last underscore is its look-up part, kept in clear and shown
 * as `prefix`; the rest are 256 random bits. Only the SHA-256 of the whole key is stored. A bootstrap key may look
 * otherwise: its look-up part is then made from its digest.
 */
const OURS = /^(mbx_[0-9a-f]{12})_[0-9a-f]{64}$/;
const BOOTSTRAP_PREFIX = 'boot_';
const BOOTSTRAP_LOCK = 7_364_218_093;

/** The key that a call came with. */
export interface Caller {
  apiKeyId: string;
  apiKeyName: string;
}

/** Who a call's key stands for, and whether the account that its path names is there. */
export interface Admission {
  caller: Caller;
  accountExists: boolean;
}

/**
 * Looks a key up; undefined when there is no such key, or it has expired. In the same statement, which every call pays
 * for: whether the account of that id is there.
 */
export async function admit(pool: pg.Pool, key: string, accountId: string | undefined): Promise<Admission | undefined> {
  const { rows } = await pool.query<AdmissionRow>({
    name: 'admit',
    text: `select id, name, digest, last_used_at is null or last_used_at < now() - interval '1 minute' as stale,
        exists (select from accounts where accounts.id = $2 and removed_at is null) as account_is_there
      from api_keys where prefix = $1 and (expires_at is null or expires_at > now())`,
    values: [lookUpPart(key), accountId !== undefined && isId('account', accountId) ? accountId : null],
  });
  const row = rows[0];
  if (!row || !timingSafeEqual(row.digest, digestOf(key))) return undefined;
  if (row.stale) void noteUse(pool, row.id);
  return { caller: { apiKeyId: row.id, apiKeyName: row.name }, accountExists: row.account_is_there };
}

interface AdmissionRow {
  id: string;
  name: string;
  digest: Buffer;
  stale: boolean;
  account_is_there: boolean;
}

/** At most once a minute, and nobody waits for it; what is lost by a failure is made up by the next call. */
async function noteUse(pool: pg.Pool, id: string): Promise<void> {
  const text = `update api_keys set last_used_at = now()
    where id = $1 and (last_used_at is null or last_used_at < now() - interval '1 minute')`;
  await pool.query(text, [id]).catch(() => undefined);
}

/** A page of keys, oldest first. */
export async function listApiKeys(
  db: Queryable,
  page: { offset: number; limit: number },
): Promise<{ data: ApiKey[]; hasMore: boolean }> {
  const rows = await db
    .select()
    .from(apiKeys)
    .orderBy(asc(apiKeys.issuedAt), asc(apiKeys.id))
    .offset(page.offset)
    .limit(page.limit + 1);
  return { data: rows.slice(0, page.limit).map(toApiKey), hasMore: rows.length > page.limit };
}

/** Makes a key; `key` is its value, which is stored nowhere. */
export async function createApiKey(
  db: Queryable,
  { name, expiresAt, key = newKey() }: { name: string; expiresAt: Date | null; key?: string },
): Promise<{ apiKey: ApiKey; key: string }> {
  const [row] = await db
    .insert(apiKeys)
    .values({
      id: newId('apiKey'),
      name,
      prefix: lookUpPart(key),
      digest: digestOf(key),
      issuedAt: new Date(),
      expiresAt,
    })
    .returning();
  return { apiKey: toApiKey(row as ApiKeyRow), key };
}

/** Revokes a key, at once and everywhere; whether there was one with that id. */
export async function deleteApiKey(db: Queryable, id: string): Promise<boolean> {
  const rows = await db.delete(apiKeys).where(eq(apiKeys.id, id)).returning({ id: apiKeys.id });
  return rows.length > 0;
}

/**
 * Makes sure that there is a key to begin with: the configured one, which takes the place of the one configured before,
 * or, when none is configured and there is none at all, a new one, whose value is returned.
 */
export async function ensureFirstKey(db: Db, configured: string | undefined): Promise<string | undefined> {
  return db.transaction(async (tx) => {
    await tx.execute(sql`select pg_advisory_xact_lock(${BOOTSTRAP_LOCK})`);
    if (configured !== undefined) {
      const prefix = lookUpPart(configured);
      await tx.delete(apiKeys).where(and(like(apiKeys.prefix, `${BOOTSTRAP_PREFIX}%`), ne(apiKeys.prefix, prefix)));
      const known = await tx.select({ id: apiKeys.id }).from(apiKeys).where(eq(apiKeys.prefix, prefix));
      if (known.length === 0) await createApiKey(tx, { name: 'bootstrap', expiresAt: null, key: configured });
      return undefined;
    }
    const anyKey = await tx.select({ id: apiKeys.id }).from(apiKeys).limit(1);
    if (anyKey.length > 0) return undefined;
    return (await createApiKey(tx, { name: 'first key', expiresAt: null })).key;
  });
}

function newKey(): string {
  return `mbx_${randomBytes(6).toString('hex')}_${randomBytes(32).toString('hex')}`;
}

function lookUpPart(key: string): string {
  return OURS.exec(key)?.[1] ?? `${BOOTSTRAP_PREFIX}${digestOf(key).toString('hex').slice(0, 12)}`;
}

function digestOf(key: string): Buffer {
  return createHash('sha256').update(key).digest();
}

type ApiKeyRow = typeof apiKeys.$inferSelect;

function toApiKey(row: ApiKeyRow): ApiKey {
  return {
    object: 'ApiKey',
    id: row.id,
    name: row.name,
    prefix: row.prefix,
    role: 'service',
    issued_at: row.issuedAt.toISOString(),
    expires_at: row.expiresAt?.toISOString() ?? null,
    last_used_at: row.lastUsedAt?.toISOString() ?? null,
  };
}
