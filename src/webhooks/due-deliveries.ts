import { sql } from 'drizzle-orm';
import type { EventType } from '../contract/events.ts';
import type { DeliveryStatus } from '../contract/webhook.ts';
import type { Db } from '../db/client.ts';

/** A delivery with what an attempt of it needs. */
export interface DueDelivery {
  id: string;
  endpointId: string;
  accountId: string;
  eventType: EventType;
  attemptsCount: number;
  eventId: string;
  objectId: string;
  sequence: number;
  eventCreatedAt: Date;
  test: boolean;
  status: DeliveryStatus;
  nextAttemptAt: Date | null;
  workflowId: string | null;
  /** the event's `data` as stored; null when it is longer than was asked for, see loadEventData */
  data: string | null;
}

/** An endpoint with what an attempt needs; secrets and headers are still sealed. */
export interface DeliveryTarget {
  id: string;
  url: string;
  enabled: boolean;
  headers: Buffer;
  secret: Buffer;
  /** signs too; null when there is none or its time is over */
  previousSecret: Buffer | null;
}

/**
 * The deliveries of these ids that still exist, in the order of their events, and the endpoints that they go to.
 * `data` comes along where it has at most `inlineBytes`.
 */
export async function loadDueDeliveries(
  db: Db,
  deliveryIds: string[],
  inlineBytes: number,
): Promise<{ deliveries: DueDelivery[]; targets: Map<string, DeliveryTarget> }> {
  const { rows } = await db.execute<DueRow>(sql`
    select d.id, d.endpoint_id, d.account_id, d.event_type, d.attempts_count, d.event_id, d.object_id, d.status,
      d.next_attempt_at, d.workflow_id, e.sequence, e.created_at, e.test,
      case when octet_length(e.data) <= ${inlineBytes} then e.data end as data
    from deliveries d join events e on e.id = d.event_id
    where d.id = any(${sql.param(deliveryIds)}::text[]) order by e.account_id, e.sequence`);
  const endpointIds = [...new Set(rows.map((row) => row.endpoint_id))];
  const { rows: targets } = await db.execute<TargetRow>(sql`
    select id, url, enabled, headers, secret,
      case when previous_secret_until > now() then previous_secret end as previous_secret
    from webhook_endpoints where id = any(${sql.param(endpointIds)}::text[])`);
  return {
    deliveries: rows.map(toDue),
    targets: new Map(
      targets.map(({ previous_secret, ...row }) => [row.id, { ...row, previousSecret: previous_secret }]),
    ),
  };
}

interface TargetRow extends Record<string, unknown>, Omit<DeliveryTarget, 'previousSecret'> {
  previous_secret: Buffer | null;
}

interface DueRow extends Record<string, unknown> {
  id: string;
  endpoint_id: string;
  account_id: string;
  event_type: EventType;
  attempts_count: number;
  event_id: string;
  object_id: string;
  status: DeliveryStatus;
  next_attempt_at: string | null;
  workflow_id: string | null;
  sequence: string;
  created_at: string;
  test: boolean;
  data: string | null;
}

const toDue = (row: DueRow): DueDelivery => ({
  id: row.id,
  endpointId: row.endpoint_id,
  accountId: row.account_id,
  eventType: row.event_type,
  attemptsCount: row.attempts_count,
  eventId: row.event_id,
  objectId: row.object_id,
  sequence: Number(row.sequence),
  eventCreatedAt: new Date(row.created_at),
  test: row.test,
  status: row.status,
  nextAttemptAt: row.next_attempt_at === null ? null : new Date(row.next_attempt_at),
  workflowId: row.workflow_id,
  data: row.data,
});

/** The stored `data` of an event, of any length; undefined when the event has been deleted. */
export async function loadEventData(db: Db, eventId: string): Promise<string | undefined> {
  const { rows } = await db.execute<{ data: string }>(sql`select data from events where id = ${eventId}`);
  return rows[0]?.data;
}
