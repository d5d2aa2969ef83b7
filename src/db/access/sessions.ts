import { createHash, randomBytes } from 'node:crypto';
import type pg from 'pg';
import type { Queryable } from '../driver/client.ts';
import { sessions } from '../schema/index.ts';

/*
 * A session is a random token in a cookie, of which only the SHA-256 is stored. It is tied to the key that created it:
 * the row is deleted with the key's, and an expired key is not admitted.
 */

const TOKEN_BYTES = 32;
const TOKEN = /^[A-Za-z0-9_-]{43}$/;

/** Lifetime of a session, ms. */
export const SESSION_MS = 12 * 60 * 60 * 1000;

/** Creates a session of a key; returns its token, which is not stored. */
export async function createSession(db: Queryable, apiKeyId: string): Promise<{ token: string; expiresAt: Date }> {
  const token = randomBytes(TOKEN_BYTES).toString('base64url');
  const createdAt = new Date();
  const expiresAt = new Date(createdAt.getTime() + SESSION_MS);
  await db.insert(sessions).values({ digest: digestOfToken(token), apiKeyId, createdAt, expiresAt });
  return { token, expiresAt };
}

/** Finds a valid session: the digest of its key and when it expires. Undefined: no session has that token. */
export async function findSession(
  pool: pg.Pool,
  token: string,
): Promise<{ keyDigest: Buffer; expiresAt: Date } | undefined> {
  if (!TOKEN.test(token)) return undefined;
  const { rows } = await pool.query<{ key_digest: Buffer; expires_at: Date }>({
    name: 'find-session',
    text: `select k.digest as key_digest, s.expires_at from sessions s join api_keys k on k.id = s.api_key_id
      where s.digest = $1 and s.expires_at > now()`,
    values: [digestOfToken(token)],
  });
  const row = rows[0];
  return row && { keyDigest: row.key_digest, expiresAt: row.expires_at };
}

/** Ends a session immediately in all processes. */
export async function deleteSession(pool: pg.Pool, token: string): Promise<void> {
  await pool.query('delete from sessions where digest = $1', [digestOfToken(token)]);
}

/** The SHA-256 of a token. */
export function digestOfToken(token: string): Buffer {
  return createHash('sha256').update(token).digest();
}
