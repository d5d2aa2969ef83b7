import { asc, eq, sql } from 'drizzle-orm';
import type { Header } from '../../contract/email.ts';
import { DISABLED_AFTER_MS, type UpdateWebhookEndpoint, type WebhookEndpoint } from '../../contract/webhook.ts';
import { newId } from '../../new-id.ts';
import type { Queryable } from '../driver/client.ts';
import { DELIVERIES_CHANNEL } from '../outbox.ts';
import { webhookEndpoints } from '../schema/index.ts';

interface SealedAt {
  table: string;
  column: string;
  id: string;
}

/** Encrypts secrets and headers for the database. */
export interface Sealer {
  seal(where: SealedAt, plaintext: string): Buffer;
  open(where: SealedAt, sealed: Buffer): string;
}

/** The values of a new endpoint. */
export interface NewEndpoint {
  url: string;
  description: string | null;
  enabled: boolean;
  triggerEvents: string[];
  accountIds: string[];
  headers: Header[];
  secret: string;
}

/** A page of endpoints, oldest first. */
export async function listEndpoints(
  db: Queryable,
  sealer: Sealer,
  page: { offset: number; limit: number },
): Promise<{ data: WebhookEndpoint[]; hasMore: boolean }> {
  const rows = await db
    .select()
    .from(webhookEndpoints)
    .orderBy(asc(webhookEndpoints.createdAt), asc(webhookEndpoints.id))
    .offset(page.offset)
    .limit(page.limit + 1);
  return {
    data: rows.slice(0, page.limit).map((row) => toEndpoint(row, sealer)),
    hasMore: rows.length > page.limit,
  };
}

/** Reads an endpoint; undefined when it does not exist. */
export async function getEndpoint(db: Queryable, sealer: Sealer, id: string): Promise<WebhookEndpoint | undefined> {
  const [row] = await db.select().from(webhookEndpoints).where(eq(webhookEndpoints.id, id));
  return row && toEndpoint(row, sealer);
}

/** Saves a new endpoint. */
export async function createEndpoint(db: Queryable, sealer: Sealer, endpoint: NewEndpoint): Promise<WebhookEndpoint> {
  const id = newId('endpoint');
  const now = new Date();
  const { headers, secret, ...plain } = endpoint;
  const [row] = await db
    .insert(webhookEndpoints)
    .values({
      ...plain,
      id,
      headers: sealer.seal(sealedAt(id, 'headers'), JSON.stringify(headers)),
      secret: sealer.seal(sealedAt(id, 'secret'), secret),
      createdAt: now,
      updatedAt: now,
    })
    .returning();
  return toEndpoint(row as EndpointRow, sealer);
}

/** Whether a change resets the failures of an endpoint: it enables it, or sets another URL. */
export const renewsEndpoint = ({ enabled, url }: UpdateWebhookEndpoint): boolean =>
  enabled === true || url !== undefined;

/**
 * Changes the given fields of an endpoint; undefined when it does not exist. Enabling it, or setting another URL, resets
 * its failures and closes its breaker.
 */
export async function updateEndpoint(
  db: Queryable,
  sealer: Sealer,
  id: string,
  change: UpdateWebhookEndpoint,
): Promise<WebhookEndpoint | undefined> {
  const isRenewed = renewsEndpoint(change);
  const [row] = await db
    .update(webhookEndpoints)
    .set({
      updatedAt: new Date(),
      ...(isRenewed ? NOT_FAILING : {}),
      ...(change.url === undefined ? {} : { url: change.url }),
      ...(change.description === undefined ? {} : { description: change.description }),
      ...(change.enabled === undefined ? {} : { enabled: change.enabled }),
      ...(change.enabled ? { disabledReason: null } : {}),
      ...(change.trigger_events === undefined ? {} : { triggerEvents: change.trigger_events }),
      ...(change.account_ids === undefined ? {} : { accountIds: change.account_ids }),
      ...(change.headers === undefined
        ? {}
        : { headers: sealer.seal(sealedAt(id, 'headers'), JSON.stringify(change.headers)) }),
    })
    .where(eq(webhookEndpoints.id, id))
    .returning();
  if (row && isRenewed) await db.execute(sql`select pg_notify(${DELIVERIES_CHANNEL}, '')`);
  return row && toEndpoint(row, sealer);
}

const NOT_FAILING = {
  failuresInARow: 0,
  breakerUntil: null,
  breakerOpenings: 0,
  breakerProbeAt: null,
  failingSince: null,
  failedAttempts: 0,
  warnedAt: null,
};

/** The replaced secret signs with the new one for so long. */
const PREVIOUS_SECRET_MS = 24 * 60 * 60 * 1000;

/**
 * Gives an endpoint a new secret; the replaced secret also signs for 24 h, instead of one replaced earlier. Undefined
 * when the endpoint does not exist.
 */
export async function rotateSecret(
  db: Queryable,
  sealer: Sealer,
  id: string,
  { secret, now }: { secret: string; now: Date },
): Promise<WebhookEndpoint | undefined> {
  return db.transaction(async (tx) => {
    const [current] = await tx.select().from(webhookEndpoints).where(eq(webhookEndpoints.id, id)).for('update');
    if (!current) return undefined;
    const previous = opened(() => sealer.open(sealedAt(id, 'secret'), current.secret));
    const [row] = await tx
      .update(webhookEndpoints)
      .set({
        secret: sealer.seal(sealedAt(id, 'secret'), secret),
        previousSecret: previous === undefined ? null : sealer.seal(sealedAt(id, 'previous_secret'), previous),
        previousSecretUntil: previous === undefined ? null : new Date(now.getTime() + PREVIOUS_SECRET_MS),
        updatedAt: now,
      })
      .where(eq(webhookEndpoints.id, id))
      .returning();
    return toEndpoint(row as EndpointRow, sealer);
  });
}

/** Deletes an endpoint; false when it did not exist. Its deliveries stay in the log. */
export async function deleteEndpoint(db: Queryable, id: string): Promise<boolean> {
  const { rowCount } = await db.execute(sql`delete from webhook_endpoints where id = ${id}`);
  return rowCount === 1;
}

/** Disables an endpoint that responded 410 Gone at `url`; false when it was already disabled, or has got another URL. */
export async function disableGoneEndpoint(db: Queryable, { id, url }: { id: string; url: string }): Promise<boolean> {
  const { rowCount } = await db.execute(sql`
    update webhook_endpoints set enabled = false, disabled_reason = 'gone', updated_at = now()
    where id = ${id} and url = ${url} and enabled`);
  return rowCount === 1;
}

type EndpointRow = typeof webhookEndpoints.$inferSelect;

/** `disabled_reason` of an endpoint whose secret or headers were sealed with a key that is no longer known. */
const UNREADABLE = 'secret_unreadable';

/** Undefined when the sealed value cannot be opened. */
function opened(open: () => string): string | undefined {
  try {
    return open();
  } catch (error) {
    if (error instanceof Error && error.name === 'SealError') return undefined;
    throw error;
  }
}

function toEndpoint(row: EndpointRow, sealer: Sealer): WebhookEndpoint {
  const headers = opened(() => sealer.open(sealedAt(row.id, 'headers'), row.headers));
  const secret = opened(() => sealer.open(sealedAt(row.id, 'secret'), row.secret));
  const isReadable = headers !== undefined && secret !== undefined;
  return {
    object: 'WebhookEndpoint',
    id: row.id,
    url: row.url,
    description: row.description,
    enabled: row.enabled,
    disabled_reason: isReadable ? row.disabledReason : UNREADABLE,
    failing_since: row.failingSince?.toISOString() ?? null,
    disables_at: disablesAt(row)?.toISOString() ?? null,
    breaker: breakerOf(row, new Date()),
    trigger_events: row.triggerEvents,
    account_ids: row.accountIds,
    headers: JSON.parse(headers ?? '[]') as Header[],
    secret: secret ?? '',
    created_at: row.createdAt.toISOString(),
    updated_at: row.updatedAt.toISOString(),
  };
}

/** Undefined until the log has warned of it. */
function disablesAt({ enabled, failingSince, warnedAt }: EndpointRow): Date | undefined {
  if (!enabled || !failingSince || !warnedAt || warnedAt < failingSince) return undefined;
  return new Date(failingSince.getTime() + DISABLED_AFTER_MS);
}

function breakerOf({ breakerUntil, breakerProbeAt }: EndpointRow, now: Date): WebhookEndpoint['breaker'] {
  if (!breakerUntil) return { state: 'closed', until: null };
  const isProbed = breakerProbeAt !== null || breakerUntil <= now;
  return { state: isProbed ? 'half_open' : 'open', until: breakerUntil.toISOString() };
}

function sealedAt(id: string, column: 'headers' | 'secret' | 'previous_secret'): SealedAt {
  return { table: 'webhook_endpoints', column, id };
}
