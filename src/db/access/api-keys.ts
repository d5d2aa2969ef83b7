import { hash, randomBytes, timingSafeEqual } from 'node:crypto';
import { and, asc, eq, isNull, like, ne, sql } from 'drizzle-orm';
import type pg from 'pg';
import type { ApiKey, Permissions } from '../../contract/api-key.ts';
import { ID_PREFIXES, isId } from '../../contract/ids.ts';
import { newId } from '../../new-id.ts';
import type { Db, Queryable } from '../driver/client.ts';
import { apiKeys, installation } from '../schema/index.ts';

/*
 * A key is `mbx_<12 hex>_<64 hex>`. The part before the last underscore finds it: stored in clear and shown as `prefix`.
 * The rest are 256 random bits. Only the SHA-256 of the whole key is stored. A bootstrap key may have any form: then its
 * digest finds it, and its prefix reveals nothing of it: bits of the digest would allow guesses of the key to be checked.
 */
const GENERATED = /^(mbx_[0-9a-f]{12})_[0-9a-f]{64}$/;
const BOOTSTRAP_PREFIX = 'boot_';
const BOOTSTRAP_NAME = 'bootstrap';
const BOOTSTRAP_LOCK = 7_364_218_093;

/** The key of a request, or the person who is signed in (`per_…`, see persons.ts), and what they may do. */
export interface Caller {
  apiKeyId: string;
  apiKeyName: string;
  permissions: Permissions;
  /** the only accounts that it can access; null: all */
  accountIds: readonly string[] | null;
}

/** The key of a request, and whether the account in its path exists. */
export interface Admission {
  caller: Caller;
  accountExists: boolean;
  /** milliseconds until the key expires; null: it does not */
  expiresInMs: number | null;
}

/**
 * Finds a key; undefined when it does not exist or has expired. Every request runs this statement, so it also says
 * whether the account with that id exists. A session passes the digest of its key instead of the key.
 */
export async function admit(
  pool: pg.Pool,
  key: string | Buffer,
  accountId: string | undefined,
): Promise<Admission | undefined> {
  const digest = typeof key === 'string' ? digestOf(key) : key;
  const prefix = typeof key === 'string' ? lookUpPart(key) : undefined;
  const { rows } = await pool.query<AdmissionRow>({
    name: 'admit',
    text: `select id, name, digest, permissions, account_ids, last_used_at is null or last_used_at < now() - interval '1 minute' as stale,
        extract(epoch from expires_at - now())::float8 * 1000 as expires_in_ms,
        exists (select from accounts where accounts.id = $2 and removed_at is null) as account_exists
      from api_keys where (prefix = $1 or digest = $3) and (expires_at is null or expires_at > now())`,
    values: [
      prefix ?? null,
      accountId !== undefined && isId('account', accountId) ? accountId : null,
      prefix === undefined ? digest : null,
    ],
  });
  const row = rows[0];
  if (!row || !timingSafeEqual(row.digest, digest)) return undefined;
  if (row.stale) void recordUse(pool, row.id);
  const { id, name, permissions, account_ids: accountIds, account_exists: accountExists } = row;
  const caller = { apiKeyId: id, apiKeyName: name, permissions, accountIds };
  return { caller, accountExists, expiresInMs: row.expires_in_ms };
}

interface AdmissionRow {
  id: string;
  name: string;
  digest: Buffer;
  permissions: Permissions;
  account_ids: string[] | null;
  stale: boolean;
  account_exists: boolean;
  expires_in_ms: number | null;
}

/** At most once a minute, in the background. After a failure the next request repeats it. */
async function recordUse(pool: pg.Pool, id: string): Promise<void> {
  const text = `update api_keys set last_used_at = now()
    where id = $1 and (last_used_at is null or last_used_at < now() - interval '1 minute')`;
  await pool.query(text, [id]).catch(() => undefined);
}

/** Which of these keys exist, as hex of their digests; one statement. */
export async function existingDigests(pool: pg.Pool, keys: string[]): Promise<Set<string>> {
  const { rows } = await pool.query<{ digest: Buffer }>({
    name: 'existing-digests',
    text: 'select digest from api_keys where digest = any($1) and (expires_at is null or expires_at > now())',
    values: [keys.map(digestOf)],
  });
  return new Set(rows.map(({ digest }) => digest.toString('hex')));
}

/** Whether a key is still valid. */
export async function keyExists(db: Queryable, id: string): Promise<boolean> {
  const rows = await db
    .select({ id: apiKeys.id })
    .from(apiKeys)
    .where(and(eq(apiKeys.id, id), sql`(${apiKeys.expiresAt} is null or ${apiKeys.expiresAt} > now())`));
  return rows.length > 0;
}

/** Whether a key is still valid and sees an account that is not removed. */
export async function keySees(pool: pg.Pool, id: string, accountId: string): Promise<boolean> {
  const { rowCount } = await pool.query({
    name: 'key-sees',
    text: `select from api_keys k join accounts a on a.id = $2 and a.removed_at is null
      where k.id = $1 and (k.expires_at is null or k.expires_at > now()) and (k.account_ids is null or a.id = any(k.account_ids))`,
    values: [id, accountId],
  });
  return rowCount === 1;
}

/** Not the row of a person (persons.ts). */
const IS_KEY = like(apiKeys.id, `${ID_PREFIXES.apiKey}\\_%`);

/** A page of keys, oldest first; `createdBy`: those that one key created. */
export async function listApiKeys(
  db: Queryable,
  page: { offset: number; limit: number; createdBy?: string | undefined },
): Promise<{ data: ApiKey[]; hasMore: boolean }> {
  const rows = await db
    .select()
    .from(apiKeys)
    .where(and(IS_KEY, page.createdBy === undefined ? undefined : eq(apiKeys.createdBy, page.createdBy)))
    .orderBy(asc(apiKeys.issuedAt), asc(apiKeys.id))
    .offset(page.offset)
    .limit(page.limit + 1);
  return { data: rows.slice(0, page.limit).map(toApiKey), hasMore: rows.length > page.limit };
}

/** The values of a new key; omitted limits do not apply. */
export interface NewApiKey {
  name: string;
  expiresAt: Date | null;
  createdBy?: string | null;
  permissions?: Permissions;
  accountIds?: string[] | null;
  /** a configured value; omitted: a random one */
  key?: string;
}

/** Creates a key; `key` is its value, which is not stored. */
export async function createApiKey(
  db: Queryable,
  { name, expiresAt, createdBy = null, permissions = 'full', accountIds = null, key = newKey() }: NewApiKey,
): Promise<{ apiKey: ApiKey; key: string }> {
  const [row] = await db
    .insert(apiKeys)
    .values({
      id: newId('apiKey'),
      name,
      prefix: lookUpPart(key) ?? `${BOOTSTRAP_PREFIX}${randomBytes(6).toString('hex')}`,
      digest: digestOf(key),
      createdBy,
      permissions,
      accountIds,
      issuedAt: new Date(),
      expiresAt,
    })
    .returning();
  return { apiKey: toApiKey(row as ApiKeyRow), key };
}

/** The digest of the configured key that was revoked last, in hexadecimal. */
const REVOKED = 'revoked_bootstrap_key';

/**
 * Revokes a key immediately in all processes; returns whether a key with that id existed. The configured one is not created again at
 * the next start.
 */
export async function deleteApiKey(db: Queryable, id: string): Promise<boolean> {
  const { rows } = await db.execute(sql`
    with deleted as (delete from api_keys where id = ${id} returning digest, name, created_by),
      revoked as (
        insert into installation (name, value) select ${REVOKED}, encode(digest, 'hex') from deleted
        where created_by is null and name = ${BOOTSTRAP_NAME}
        on conflict (name) do update set value = excluded.value)
    select from deleted`);
  return rows.length > 0;
}

/**
 * Ensures that a first key exists: the configured one, which replaces the previously configured one, unless it was revoked. Without
 * a configured key, and when no key exists, creates one and returns its value.
 */
export async function ensureFirstKey(db: Db, configured: string | undefined): Promise<string | undefined> {
  return db.transaction(async (tx) => {
    await tx.execute(sql`select pg_advisory_xact_lock(${BOOTSTRAP_LOCK})`);
    if (configured !== undefined) {
      const digest = digestOf(configured);
      // no call of the API makes one with both
      const isConfigured = and(IS_KEY, isNull(apiKeys.createdBy), eq(apiKeys.name, BOOTSTRAP_NAME));
      await tx.delete(apiKeys).where(and(isConfigured, ne(apiKeys.digest, digest)));
      const existing = await tx.select({ id: apiKeys.id }).from(apiKeys).where(eq(apiKeys.digest, digest));
      const [revoked] = await tx.select().from(installation).where(eq(installation.name, REVOKED));
      if (existing.length === 0 && revoked?.value !== digest.toString('hex')) {
        await createApiKey(tx, { name: BOOTSTRAP_NAME, expiresAt: null, key: configured });
      }
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

function lookUpPart(key: string): string | undefined {
  return GENERATED.exec(key)?.[1];
}

/** The SHA-256 of a key. */
export function digestOf(key: string): Buffer {
  return hash('sha256', key, 'buffer');
}

type ApiKeyRow = typeof apiKeys.$inferSelect;

function toApiKey(row: ApiKeyRow): ApiKey {
  return {
    object: 'ApiKey',
    id: row.id,
    name: row.name,
    prefix: row.prefix,
    created_by: row.createdBy,
    role: 'service',
    permissions: row.permissions,
    accounts: row.accountIds,
    issued_at: row.issuedAt.toISOString(),
    expires_at: row.expiresAt?.toISOString() ?? null,
    last_used_at: row.lastUsedAt?.toISOString() ?? null,
  };
}
