import { sql } from 'drizzle-orm';
import {
  bigint,
  boolean,
  check,
  index,
  integer,
  jsonb,
  pgTable,
  primaryKey,
  text,
  uniqueIndex,
} from 'drizzle-orm/pg-core';
import type { ReplayFilter } from '../../contract/replay.ts';
import { at, bytea } from './columns.ts';

export const webhookEndpoints = pgTable('webhook_endpoints', {
  id: text().primaryKey(),
  url: text().notNull(),
  description: text(),
  enabled: boolean().notNull().default(true),
  disabledReason: text('disabled_reason'),
  triggerEvents: text('trigger_events').array().notNull(),
  accountIds: text('account_ids').array().notNull(),
  /** sealed JSON of Header[] */
  headers: bytea().notNull(),
  /** sealed secret */
  secret: bytea().notNull(),
  /** sealed; signs until previous_secret_until */
  previousSecret: bytea('previous_secret'),
  previousSecretUntil: at('previous_secret_until'),
  /** consecutive failures that mean that the endpoint is down: no response, 5xx, 429 */
  failuresInARow: integer('failures_in_a_row').notNull().default(0),
  /** the circuit breaker is open: until then only probes are sent; null: closed */
  breakerUntil: at('breaker_until'),
  /** times in a row that the breaker opened */
  breakerOpenings: integer('breaker_openings').notNull().default(0),
  /** when the current probe began */
  breakerProbeAt: at('breaker_probe_at'),
  /** first failed attempt since the last success, and the number of them */
  failingSince: at('failing_since'),
  failedAttempts: integer('failed_attempts').notNull().default(0),
  /** accurate to a minute */
  lastSuccessAt: at('last_success_at'),
  /** when the log warned that it will be disabled */
  warnedAt: at('warned_at'),
  createdAt: at('created_at').notNull(),
  updatedAt: at('updated_at').notNull(),
});

/** The outbox: what happened, written in the transaction that made it happen. */
export const events = pgTable(
  'events',
  {
    id: text().primaryKey(),
    accountId: text('account_id').notNull(),
    type: text().notNull(),
    /** per account, without gaps; 0 for a test event */
    sequence: bigint({ mode: 'number' }).notNull(),
    /** id of the email, folder or account that it is about; a test event's own id, so that no other event waits for it */
    objectId: text('object_id').notNull(),
    /** `data` of the envelope as JSON text, made once */
    data: text().notNull(),
    test: boolean().notNull().default(false),
    /**
     * Its position in the feed, see src/db/queries/event-feed.ts: the number of its transaction, or the greatest of a
     * transaction that had ended before. null: a test event, which is not in the feed.
     */
    position: bigint({ mode: 'number' }).default(
      sql`greatest(pg_current_xact_id()::text::bigint, pg_snapshot_xmax(pg_current_snapshot())::text::bigint - 1)`,
    ),
    createdAt: at('created_at').notNull(),
  },
  (t) => [
    uniqueIndex('events_sequence').on(t.accountId, t.sequence).where(sql`not test`),
    index('events_feed').on(t.type, t.position, t.accountId, t.sequence),
    index('events_account_feed').on(t.accountId, t.type, t.position, t.sequence),
    index('events_created').on(t.createdAt, t.id),
    index('events_object').on(t.objectId),
  ],
);

/** One event to one endpoint: the delivery log and the work list of the relay. */
export const deliveries = pgTable(
  'deliveries',
  {
    id: text().primaryKey(),
    eventId: text('event_id').notNull(),
    endpointId: text('endpoint_id').notNull(),
    endpointUrl: text('endpoint_url').notNull(),
    accountId: text('account_id').notNull(),
    eventType: text('event_type').notNull(),
    objectId: text('object_id').notNull(),
    /** of the event: deliveries of one object to one endpoint are made in this order */
    sequence: bigint({ mode: 'number' }).notNull().default(0),
    test: boolean().notNull().default(false),
    status: text().notNull().default('pending'),
    attemptsCount: integer('attempts_count').notNull().default(0),
    /** attempts made before the current retry schedule began */
    scheduleFrom: integer('schedule_from').notNull().default(0),
    httpStatus: integer('http_status'),
    responseBody: text('response_body'),
    error: text(),
    errorKind: text('error_kind'),
    createdAt: at('created_at').notNull(),
    lastAttemptAt: at('last_attempt_at'),
    nextAttemptAt: at('next_attempt_at'),
    /** a manual retry: it is attempted even while the breaker of the endpoint is open */
    forced: boolean().notNull().default(false),
    /** claims pass over it until an earlier delivery of its object ends, see src/webhooks/dispatch/claim-objects.ts */
    held: boolean().notNull().default(false),
    /** the workflow that has it; null: not claimed by the relay */
    workflowId: text('workflow_id'),
    /** the last workflow that had it */
    lastWorkflowId: text('last_workflow_id'),
    /** the execution of that workflow that made the last attempt */
    runId: text('run_id'),
    /** number of workflows that have had it */
    runs: integer().notNull().default(0),
    claimedAt: at('claimed_at'),
    /** when Temporal had the workflow */
    startedAt: at('started_at'),
    /** the bulk replay that makes it again, and the status that it had before */
    replayId: text('replay_id'),
    statusBeforeReplay: text('status_before_replay'),
  },
  (t) => [
    uniqueIndex('deliveries_event').on(t.eventId, t.endpointId),
    // by endpoint first, so that the relay claims some of each, regardless of one endpoint's backlog; then live before
    // replayed, and due before later
    index('deliveries_unclaimed')
      .on(t.endpointId, sql`((replay_id is not null)::int)`, t.nextAttemptAt.asc().nullsFirst(), t.id)
      .where(sql`status = 'pending' and workflow_id is null and not held`),
    // the delivery that the end of an earlier one releases; usually none
    index('deliveries_held').on(t.endpointId, t.objectId, t.sequence).where(sql`held and status = 'pending'`),
    // deliveries that an earlier event of the same object holds back
    index('deliveries_order').on(t.endpointId, t.objectId, t.sequence).where(sql`status = 'pending'`),
    // each head of a claim asks whether a later delivery of its object is in a workflow
    index('deliveries_under_way')
      .on(t.endpointId, t.objectId, t.sequence)
      .where(sql`status = 'pending' and workflow_id is not null`),
    index('deliveries_run').on(t.workflowId).where(sql`status = 'pending' and workflow_id is not null`),
    index('deliveries_forced')
      .on(t.endpointId, t.id)
      .where(sql`forced and status = 'pending' and workflow_id is null and not held`),
    index('deliveries_retrying')
      .on(t.endpointId)
      .where(sql`status = 'pending' and workflow_id is not null and next_attempt_at is not null`),
    index('deliveries_replay').on(t.replayId, t.status, t.held).where(sql`replay_id is not null`),
    index('deliveries_object').on(t.objectId, t.createdAt, t.id),
    index('deliveries_unstarted').on(t.claimedAt).where(sql`status = 'pending' and started_at is null`),
    index('deliveries_endpoint').on(t.endpointId, t.createdAt, t.id),
    index('deliveries_endpoint_type').on(t.endpointId, t.eventType, t.createdAt, t.id),
    index('deliveries_type').on(t.eventType, t.createdAt, t.id),
    index('deliveries_created').on(t.createdAt, t.id),
    // operators search for pending and failed deliveries
    index('deliveries_open').on(t.status, t.createdAt, t.id).where(sql`status <> 'delivered'`),
    index('deliveries_account').on(t.accountId, t.createdAt, t.id),
    check('deliveries_status', sql`status in ('pending', 'delivered', 'failed', 'skipped')`),
  ],
);

export const deliveryAttempts = pgTable(
  'delivery_attempts',
  {
    deliveryId: text('delivery_id').notNull(),
    number: integer().notNull(),
    at: at('at').notNull(),
    httpStatus: integer('http_status'),
    responseBody: text('response_body'),
    error: text(),
    errorKind: text('error_kind'),
    durationMs: integer('duration_ms').notNull(),
  },
  (t) => [primaryKey({ columns: [t.deliveryId, t.number] })],
);

/** Bulk replays of the delivery log. See src/webhooks/log/replay-state.ts. */
export const replays = pgTable(
  'replays',
  {
    id: text().primaryKey(),
    endpointId: text('endpoint_id').notNull(),
    filter: jsonb().$type<ReplayFilter>().notNull(),
    status: text().notNull().default('running'),
    /** deliveries that matched when it was created */
    total: integer().notNull().default(0),
    /** the counts when it ended */
    delivered: integer().notNull().default(0),
    failed: integer().notNull().default(0),
    skipped: integer().notNull().default(0),
    /** the last delivery that was queued: `created_at|account_id|sequence|id` */
    cursor: text(),
    /**
     * objects with enough deliveries held back, and the last queued delivery of each: those after it, up to `cursor`,
     * remain
     */
    behind: jsonb().$type<Record<string, string>>().notNull().default({}),
    /** when every matching delivery was queued */
    queuedAllAt: at('queued_all_at'),
    createdAt: at('created_at').notNull(),
    completedAt: at('completed_at'),
  },
  (t) => [
    index('replays_created').on(t.createdAt, t.id),
    index('replays_running').on(t.endpointId).where(sql`status = 'running'`),
    check('replays_status', sql`status in ('running', 'completed', 'cancelled')`),
  ],
);
