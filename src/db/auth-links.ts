import { randomBytes } from 'node:crypto';
import { and, eq, isNull, lt, sql } from 'drizzle-orm';
import type { AuthLinkConfig } from '../contract/auth-link.ts';
import { newId } from '../new-id.ts';
import type { Queryable } from './client.ts';
import { authLinks } from './schema.ts';
import { digestOfToken } from './sessions.ts';

/*
 * open → busy (a login is being tried) → used (with the account), or open again after a refused login
 * open → used without an account: the owner cancelled
 * A link of a process that died while it was busy is open again a minute later.
 */

const TOKEN_BYTES = 32;
const TOKEN = /^[A-Za-z0-9_-]{43}$/;
/** A login takes less; after that the link is open again. */
const BUSY_SECONDS = 60;
/** Logins that may be tried with one link in a minute. */
const ATTEMPTS_PER_MINUTE = 10;
/** Links are kept for a while after they ended, so that their page can say so, days. */
const KEPT_DAYS = 7;

export interface NewAuthLink {
  redirectUrl: string | null;
  state: string | null;
  name: string | null;
  accountId: string | null;
  config: AuthLinkConfig;
  apiKeyId: string;
  expiresAt: Date;
}

export interface StoredAuthLink extends NewAuthLink {
  id: string;
  usedAt: Date | null;
  connectedId: string | null;
}

/** Saves a link; returns its id, and the token of its URL, which is not stored. */
export async function createAuthLink(db: Queryable, link: NewAuthLink): Promise<{ id: string; token: string }> {
  const id = newId('authLink');
  const token = randomBytes(TOKEN_BYTES).toString('base64url');
  const createdAt = new Date();
  await db.delete(authLinks).where(lt(authLinks.expiresAt, new Date(createdAt.getTime() - KEPT_DAYS * 86_400_000)));
  await db.insert(authLinks).values({ ...link, id, digest: digestOfToken(token), createdAt });
  return { id, token };
}

/** A link ends with the key that made it. */
const HAS_KEY = sql`exists (
  select from api_keys k where k.id = ${authLinks.apiKeyId} and (k.expires_at is null or k.expires_at > now())
)`;

/** The link with that token, also one that was used or has expired; undefined when there is none. */
export async function findAuthLink(db: Queryable, token: string): Promise<StoredAuthLink | undefined> {
  if (!TOKEN.test(token)) return undefined;
  const [row] = await db
    .select()
    .from(authLinks)
    .where(and(eq(authLinks.digest, digestOfToken(token)), HAS_KEY));
  return row;
}

/**
 * Makes a link busy for one login. False: another one is being tried, too many were tried in the last minute, or it cannot
 * be used any more.
 */
export async function beginAttempt(db: Queryable, id: string): Promise<boolean> {
  const isNewMinute = sql`(${authLinks.attemptsFrom} is null or ${authLinks.attemptsFrom} < now() - interval '1 minute')`;
  const rows = await db
    .update(authLinks)
    .set({
      busyUntil: sql`now() + ${BUSY_SECONDS} * interval '1 second'`,
      attempts: sql`case when ${isNewMinute} then 1 else ${authLinks.attempts} + 1 end`,
      attemptsFrom: sql`case when ${isNewMinute} then now() else ${authLinks.attemptsFrom} end`,
    })
    .where(
      and(
        eq(authLinks.id, id),
        HAS_KEY,
        isNull(authLinks.usedAt),
        sql`${authLinks.expiresAt} > now()`,
        sql`(${authLinks.busyUntil} is null or ${authLinks.busyUntil} < now())`,
        sql`(${isNewMinute} or ${authLinks.attempts} < ${ATTEMPTS_PER_MINUTE})`,
      ),
    )
    .returning({ id: authLinks.id });
  return rows.length > 0;
}

/** Ends an attempt: with the account the link is used, without one it is open again. */
export async function endAttempt(db: Queryable, id: string, connectedId: string | null): Promise<void> {
  await db
    .update(authLinks)
    .set({ busyUntil: null, ...(connectedId === null ? {} : { usedAt: new Date(), connectedId }) })
    .where(eq(authLinks.id, id));
}

/** The owner does not want to connect: the link cannot be used any more. False: a login is being tried. */
export async function cancelAuthLink(db: Queryable, id: string): Promise<boolean> {
  const isIdle = sql`(${authLinks.busyUntil} is null or ${authLinks.busyUntil} < now())`;
  const rows = await db
    .update(authLinks)
    .set({ usedAt: new Date() })
    .where(and(eq(authLinks.id, id), isNull(authLinks.usedAt), isIdle))
    .returning({ id: authLinks.id });
  return rows.length > 0;
}
