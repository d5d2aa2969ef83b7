import { and, asc, desc, eq, gte, lt, type SQL, sql } from 'drizzle-orm';
import { envelopeText, type EventType } from '../../contract/events.ts';
import type {
  AttemptOutcome,
  DeliveredEmail,
  DeliveryAttempt,
  DeliveryStatus,
  PostErrorKind,
  WaitingFor,
  WebhookConversation,
  WebhookConversationDetail,
} from '../../contract/webhook.ts';
import type { Queryable } from '../driver/client.ts';
import { type JsonOf, jsonWith } from '../driver/json-text.ts';
import { lastOutcome } from './replays.ts';
import { nextAttemptAt, waitingFor } from './waiting-for.ts';
import {
  accounts,
  deliveries,
  deliveryAttempts,
  emails,
  events,
  pendingDeliveries,
  webhookEndpoints,
} from '../schema/index.ts';

/** Filters of the delivery log; combined with AND. */
export interface ConversationFilter {
  endpointId?: string;
  eventId?: string;
  eventType?: EventType;
  /** of any of these; omitted: of all */
  accountIds?: readonly string[] | undefined;
  /** the email that its event is about */
  emailId?: string;
  status?: DeliveryStatus;
  lastOutcome?: AttemptOutcome;
  /** created at or after */
  since?: Date;
  /** created before */
  until?: Date;
}

/** A page of the delivery log, newest first. */
export async function listConversations(
  db: Queryable,
  filter: ConversationFilter,
  page: { offset: number; limit: number },
): Promise<{ data: WebhookConversation[]; hasMore: boolean }> {
  const order = [desc(deliveries.createdAt), desc(deliveries.id)];
  const { accountIds } = filter;
  const ids = accountIds && accountIds.length !== 1 ? idsOfAny(accountIds, filter, page) : idsOf(db, filter, page);
  const rows = await selected(db)
    .where(sql`${deliveries.id} in ${ids}`)
    .orderBy(...order);
  return { data: rows.slice(0, page.limit).map(toConversation), hasMore: rows.length > page.limit };
}

/** Reads a delivery; undefined when it does not exist. */
export async function getConversation(db: Queryable, id: string): Promise<WebhookConversation | undefined> {
  const [row] = await selected(db).where(eq(deliveries.id, id));
  return row && toConversation(row);
}

/** Reads a delivery with its attempts, its run and the body of its calls; undefined when it does not exist. */
export async function getConversationDetail(
  db: Queryable,
  id: string,
  /** the part that the caller may see */
  shown: (delivery: WebhookConversation) => WebhookConversation = (delivery) => delivery,
): Promise<JsonOf<WebhookConversationDetail> | undefined> {
  const [row] = await selected(db).where(eq(deliveries.id, id));
  const [event] = row ? await db.select().from(events).where(eq(events.id, row.delivery.eventId)) : [];
  if (!row || !event) return undefined;
  const attempts = await db
    .select()
    .from(deliveryAttempts)
    .where(eq(deliveryAttempts.deliveryId, id))
    .orderBy(asc(deliveryAttempts.number));
  const { delivery, workflowId } = row;
  const payload = envelopeText({ ...event, type: event.type as EventType }, delivery.endpointId);
  return jsonWith<WebhookConversationDetail, 'payload'>(
    {
      ...shown(toConversation(row)),
      workflow_id: workflowId ?? delivery.workflowId,
      attempts: attempts.map(toAttempt),
    },
    { payload: payload as JsonOf<Record<string, unknown>> },
  );
}

interface Page {
  offset: number;
  limit: number;
}

/** Rows that a deep page skips are read from the index alone. */
function idsOf(db: Queryable, filter: ConversationFilter, page: Page): SQL {
  const [accountId] = filter.accountIds ?? [];
  const ids = db
    .select({ id: deliveries.id })
    .from(deliveries)
    .where(and(...conditions(filter), accountId === undefined ? undefined : eq(deliveries.accountId, accountId)))
    .orderBy(desc(deliveries.createdAt), desc(deliveries.id))
    .offset(page.offset)
    .limit(page.limit + 1);
  return sql`${ids}`;
}

/** Selects the ids of a page of some accounts: one index scan for each, even where their deliveries are rare. */
function idsOfAny(accountIds: readonly string[], filter: ConversationFilter, { offset, limit }: Page): SQL {
  const order = sql`created_at desc, id desc`;
  return sql`(
    select found.id from unnest(${sql.param(accountIds)}::text[]) as visible (account_id) cross join lateral (
      select ${deliveries.id}, ${deliveries.createdAt} from ${deliveries}
      where ${and(sql`${deliveries.accountId} = visible.account_id`, ...conditions(filter))}
      order by ${order} limit ${offset + limit + 1}
    ) found order by ${order} offset ${offset} limit ${limit + 1})`;
}

function conditions(filter: ConversationFilter): (SQL | undefined)[] {
  const same = (column: Parameters<typeof eq>[0], value: string | undefined) =>
    value === undefined ? undefined : eq(column, value);
  return [
    same(deliveries.endpointId, filter.endpointId),
    same(deliveries.eventId, filter.eventId),
    same(deliveries.eventType, filter.eventType),
    same(deliveries.objectId, filter.emailId),
    same(deliveries.status, filter.status),
    filter.lastOutcome && lastOutcome(filter.lastOutcome, sql`${deliveries}`),
    filter.since && gte(deliveries.createdAt, filter.since),
    filter.until && lt(deliveries.createdAt, filter.until),
  ];
}

const WAITING_FOR = sql.raw(waitingFor('pending_deliveries', 'webhook_endpoints'));

/** The email that a delivery is about, as JSON of `DeliveredEmail`. */
const EMAIL = sql<DeliveredEmail | null>`case when ${deliveries.objectId} like 'email\\_%' then json_build_object(
  'id', ${deliveries.objectId}, 'subject', ${emails.subject},
  'from', coalesce(nullif(${emails.fromAttendee}->>'display_name', ''), ${emails.fromAttendee}->>'identifier')) end`;

/** Rows of the log with those of the queue, and the names of what they are about. */
const selected = (db: Queryable) =>
  db
    .select({
      delivery: deliveries,
      workflowId: pendingDeliveries.workflowId,
      waitingFor: sql<WaitingFor | null>`${WAITING_FOR}`,
      accountName: accounts.name,
      endpointName: webhookEndpoints.description,
      email: EMAIL,
    })
    .from(deliveries)
    .leftJoin(pendingDeliveries, eq(pendingDeliveries.deliveryId, deliveries.id))
    .leftJoin(webhookEndpoints, eq(webhookEndpoints.id, deliveries.endpointId))
    .leftJoin(accounts, eq(accounts.id, deliveries.accountId))
    .leftJoin(emails, eq(emails.id, deliveries.objectId));

interface Row {
  delivery: typeof deliveries.$inferSelect;
  /** the run that has it */
  workflowId: string | null;
  waitingFor: WaitingFor | null;
  accountName: string | null;
  endpointName: string | null;
  email: DeliveredEmail | null;
}

function toConversation({ delivery: row, waitingFor, accountName, endpointName, email }: Row): WebhookConversation {
  return {
    object: 'WebhookConversation',
    id: row.id,
    endpoint_id: row.endpointId,
    event_id: row.eventId,
    event_type: row.eventType,
    account_id: row.accountId,
    account_name: accountName,
    email,
    endpoint_url: row.endpointUrl,
    endpoint_name: endpointName,
    status: row.status as DeliveryStatus,
    first_attempt: row.attemptsCount <= 1,
    attempts_count: row.attemptsCount,
    http_status: row.httpStatus,
    response_body: row.responseBody,
    error: row.error,
    error_kind: row.errorKind as PostErrorKind | null,
    created_at: row.createdAt.toISOString(),
    last_attempt_at: row.lastAttemptAt?.toISOString() ?? null,
    next_attempt_at: nextAttemptAt(waitingFor),
    waiting_for: waitingFor,
    test: row.test,
  };
}

function toAttempt(row: typeof deliveryAttempts.$inferSelect): DeliveryAttempt {
  return {
    number: row.number,
    at: row.at.toISOString(),
    http_status: row.httpStatus,
    response_body: row.responseBody,
    error: row.error,
    error_kind: row.errorKind as PostErrorKind | null,
    duration_ms: row.durationMs,
  };
}
