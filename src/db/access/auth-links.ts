import { randomBytes } from 'node:crypto';
import { and, desc, eq, isNull, lt, type SQL, sql } from 'drizzle-orm';
import type { AuthLink, LinkBrand, LinkStatus } from '../../contract/auth-link.ts';
import type { MailboxConfig } from '../../contract/mailbox-config.ts';
import { newId } from '../../new-id.ts';
import type { Queryable } from '../driver/client.ts';
import { authLinks } from '../schema/index.ts';
import { readKey, reserveKey } from './idempotency.ts';
import { digestOfToken } from './sessions.ts';

/*
 * open → busy (a login is in progress) → used (with the account), or open again after a refused login
 * open → used without an account: the owner cancelled
 * open → deleted: it was revoked
 * When a process dies during a login, its link is open again a minute later.
 */

const TOKEN_BYTES = 32;
const TOKEN = /^[A-Za-z0-9_-]{43}$/;
/** Longer than any login; after that the link is open again. */
const BUSY_SECONDS = 60;
/** Login attempts with one link in a minute. */
const ATTEMPTS_PER_MINUTE = 10;
/** Failed login attempts after which a link has expired. */
const ATTEMPTS_IN_ALL = 50;

export interface NewAuthLink {
  redirectUrl: string | null;
  state: string | null;
  name: string | null;
  accountId: string | null;
  config: MailboxConfig;
  brand: LinkBrand | null;
  apiKeyId: string;
  expiresAt: Date;
}

export interface StoredAuthLink extends NewAuthLink {
  id: string;
  usedAt: Date | null;
  connectedId: string | null;
}

/** Saves a link; returns it with the token of its URL, which is not stored. */
export async function createAuthLink(
  db: Queryable,
  link: NewAuthLink,
): Promise<{ id: string; token: string; authLink: AuthLink }> {
  const id = newId('authLink');
  const token = randomBytes(TOKEN_BYTES).toString('base64url');
  const stored = { ...link, id, createdAt: new Date(), usedAt: null, connectedId: null };
  await db.insert(authLinks).values({ ...stored, digest: digestOfToken(token) });
  return { id, token, authLink: toAuthLink({ ...stored, brandName: link.brand?.name ?? null, status: 'open' }) };
}

/** A link ends with the key that made it. */
const HAS_KEY = sql`exists (
  select from api_keys k where k.id = ${authLinks.apiKeyId} and (k.expires_at is null or k.expires_at > now())
)`;

const IS_OPEN = sql`${authLinks.usedAt} is null and ${authLinks.expiresAt} > now() and ${HAS_KEY}`;
const IS_IDLE = sql`(${authLinks.busyUntil} is null or ${authLinks.busyUntil} < now())`;

const HAS_STATUS: Record<LinkStatus, SQL> = {
  open: IS_OPEN,
  used: sql`${authLinks.usedAt} is not null and ${authLinks.connectedId} is not null`,
  cancelled: sql`${authLinks.usedAt} is not null and ${authLinks.connectedId} is null`,
  expired: sql`${authLinks.usedAt} is null and not (${authLinks.expiresAt} > now() and ${HAS_KEY})`,
};
const STATUS = sql<LinkStatus>`case when ${HAS_STATUS.used} then 'used' when ${HAS_STATUS.cancelled} then 'cancelled'
  when ${IS_OPEN} then 'open' else 'expired' end`;

/** A page of the links, newest first, without their URLs. */
export async function listAuthLinks(
  db: Queryable,
  page: { offset: number; limit: number; status?: LinkStatus | undefined; accountId?: string | undefined },
): Promise<{ data: AuthLink[]; hasMore: boolean }> {
  const { id, name, accountId, connectedId, redirectUrl, state, apiKeyId, createdAt, expiresAt, usedAt } = authLinks;
  // without the logo, which may be large
  const brandName = sql<string | null>`${authLinks.brand} ->> 'name'`;
  const rows = await db
    .select({
      status: STATUS,
      ...{ id, name, accountId, connectedId, redirectUrl, state, brandName, apiKeyId, createdAt, expiresAt, usedAt },
    })
    .from(authLinks)
    .where(
      and(
        page.status && HAS_STATUS[page.status],
        page.accountId === undefined ? undefined : eq(authLinks.accountId, page.accountId),
      ),
    )
    .orderBy(desc(authLinks.createdAt), desc(authLinks.id))
    .offset(page.offset)
    .limit(page.limit + 1);
  return { data: rows.slice(0, page.limit).map(toAuthLink), hasMore: rows.length > page.limit };
}

/** A link as its creator sees it. */
type ShownLink = Omit<StoredAuthLink, 'config' | 'brand'> & {
  brandName: string | null;
  createdAt: Date;
  status: LinkStatus;
};

function toAuthLink(link: ShownLink): AuthLink {
  return {
    object: 'AuthLink',
    id: link.id,
    status: link.status,
    name: link.name,
    account_id: link.accountId,
    connected_account_id: link.connectedId,
    redirect_url: link.redirectUrl,
    state: link.state,
    brand_name: link.brandName,
    created_by: link.apiKeyId,
    created_at: link.createdAt.toISOString(),
    expires_at: link.expiresAt.toISOString(),
    used_at: link.usedAt?.toISOString() ?? null,
  };
}

/**
 * Deletes a link that connected nothing, whose page is not found from then on. `busy`: a login with it is in progress,
 * after which the link has expired; `used`: it has connected a mailbox; `none`: it does not exist.
 */
export async function deleteAuthLink(db: Queryable, id: string): Promise<'deleted' | 'busy' | 'used' | 'none'> {
  const deleted = await db
    .delete(authLinks)
    .where(and(eq(authLinks.id, id), isNull(authLinks.connectedId), IS_IDLE))
    .returning({ id: authLinks.id });
  if (deleted.length > 0) return 'deleted';
  // Otherwise its holder could keep it busy forever.
  await db
    .update(authLinks)
    .set({ expiresAt: sql`least(${authLinks.expiresAt}, now())` })
    .where(and(eq(authLinks.id, id), isNull(authLinks.connectedId)));
  const [row] = await db.select({ connectedId: authLinks.connectedId }).from(authLinks).where(eq(authLinks.id, id));
  if (!row) return 'none';
  return row.connectedId === null ? 'busy' : 'used';
}

/** Finds a link by its token, including used and expired ones; undefined when none exists. */
export async function findAuthLink(db: Queryable, token: string): Promise<StoredAuthLink | undefined> {
  if (!TOKEN.test(token)) return undefined;
  const [row] = await db
    .select()
    .from(authLinks)
    .where(and(eq(authLinks.digest, digestOfToken(token)), HAS_KEY));
  return row;
}

/**
 * Makes a link busy for one login. False: another login is in progress, the last minute had too many attempts, or the
 * link was used or has expired.
 */
export async function beginAttempt(db: Queryable, id: string): Promise<boolean> {
  const isNewMinute = sql`(${authLinks.attemptsFrom} is null or ${authLinks.attemptsFrom} < now() - interval '1 minute')`;
  const rows = await db
    .update(authLinks)
    .set({
      busyUntil: sql`now() + ${BUSY_SECONDS} * interval '1 second'`,
      attempts: sql`case when ${isNewMinute} then 1 else ${authLinks.attempts} + 1 end`,
      attemptsInAll: sql`${authLinks.attemptsInAll} + 1`,
      attemptsFrom: sql`case when ${isNewMinute} then now() else ${authLinks.attemptsFrom} end`,
    })
    .where(
      and(
        eq(authLinks.id, id),
        IS_OPEN,
        IS_IDLE,
        sql`(${isNewMinute} or ${authLinks.attempts} < ${ATTEMPTS_PER_MINUTE})`,
        lt(authLinks.attemptsInAll, ATTEMPTS_IN_ALL),
      ),
    )
    .returning({ id: authLinks.id });
  return rows.length > 0;
}

/** Ends an attempt: with the account the link is used, without one it is open again, or has expired after too many. */
export async function endAttempt(db: Queryable, id: string, connectedId: string | null): Promise<void> {
  const expiresAt = sql`case when ${authLinks.attemptsInAll} < ${ATTEMPTS_IN_ALL} then ${authLinks.expiresAt}
    else least(${authLinks.expiresAt}, now()) end`;
  await db
    .update(authLinks)
    .set({ busyUntil: null, ...(connectedId === null ? { expiresAt } : { usedAt: new Date(), connectedId }) })
    .where(eq(authLinks.id, id));
}

/** Where the session that used a link is stored, for as long as responses of calls are; a key of a caller has no line break. */
const sessionKey = ({ id, apiKeyId }: StoredAuthLink, session: string) => ({
  apiKeyId,
  key: `${id}\n${digestOfToken(session).toString('hex')}`,
});

/** Records that this session of the page has connected a mailbox by the link. */
export async function noteConnected(db: Queryable, link: StoredAuthLink, session: string): Promise<void> {
  await reserveKey(db, sessionKey(link, session), Buffer.alloc(0), link.id);
}

/** Whether this session of the page has connected a mailbox by the link, in the last 24 hours. */
export async function hasConnected(db: Queryable, link: StoredAuthLink, session: string): Promise<boolean> {
  return (await readKey(db, sessionKey(link, session))) !== undefined;
}

/** Ends a link whose owner does not want to connect. False: a login is in progress. */
export async function cancelAuthLink(db: Queryable, id: string): Promise<boolean> {
  const rows = await db
    .update(authLinks)
    .set({ usedAt: new Date() })
    .where(and(eq(authLinks.id, id), isNull(authLinks.usedAt), IS_IDLE))
    .returning({ id: authLinks.id });
  return rows.length > 0;
}
