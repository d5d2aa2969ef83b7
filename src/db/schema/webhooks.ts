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
  smallint,
  text,
  timestamp,
  uniqueIndex,
} from 'drizzle-orm/pg-core';
import type { ReplayFilter } from '../../contract/runs/replay.ts';
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
  /** times that the breaker opened since the last success */
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
    /** when the installation was last restored, ms since 1970, see src/db/coordination/restored.ts; null: never */
    epoch: bigint({ mode: 'number' }),
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
    // without events whose content was erased: of a mailbox that was removed there may be many, and nothing lists them
    index('events_feed').on(t.type, t.position, t.accountId, t.sequence).where(sql`data <> '{}'`),
    index('events_account_feed').on(t.accountId, t.type, t.position, t.sequence).where(sql`data <> '{}'`),
    index('events_erased').on(t.id, t.position).where(sql`data = '{}'`),
    index('events_created').on(t.createdAt, t.id),
    index('events_object').on(t.objectId),
  ],
);

/** Events of excluded folders whose deliveries were pending: their content is erased when these have ended. */
export const eventsToErase = pgTable('events_to_erase', { eventId: text('event_id').primaryKey() });

/**
 * The delivery log: one event to one endpoint, and what came of it. A row changes when an attempt has ended, and never while it
 * waits: what is to be delivered is in `pendingDeliveries`.
 */
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
    /** of the event */
    sequence: bigint({ mode: 'number' }).notNull().default(0),
    test: boolean().notNull().default(false),
    /** pending as long as it has a row in `pendingDeliveries` */
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
    /** the run that made the last attempt, or that makes the next one */
    workflowId: text('workflow_id'),
    /** the execution of that workflow that made the last attempt */
    runId: text('run_id'),
    /** runs that it was given to, counted when an attempt or the delivery ends */
    runs: integer().notNull().default(0),
    /** the bulk replay that makes it again, and the status that it had before */
    replayId: text('replay_id'),
    statusBeforeReplay: text('status_before_replay'),
  },
  (t) => [
    uniqueIndex('deliveries_event').on(t.eventId, t.endpointId),
    index('deliveries_replay').on(t.replayId, t.status).where(sql`replay_id is not null`),
    index('deliveries_object').on(t.objectId, t.createdAt, t.id),
    index('deliveries_endpoint').on(t.endpointId, t.createdAt, t.id),
    index('deliveries_endpoint_type').on(t.endpointId, t.eventType, t.createdAt, t.id),
    index('deliveries_type').on(t.eventType, t.createdAt, t.id),
    index('deliveries_created').on(t.createdAt, t.id),
    // operators search for pending and failed deliveries
    index('deliveries_open').on(t.status, t.createdAt, t.id).where(sql`status <> 'delivered'`),
    // and for those whose last attempt failed
    index('deliveries_failed_last').on(t.createdAt, t.id).where(sql`error_kind is not null`),
    index('deliveries_account').on(t.accountId, t.createdAt, t.id),
    check('deliveries_status', sql`status in ('pending', 'delivered', 'failed', 'skipped')`),
  ],
);

/** The queue: one row for each delivery that has not ended. See docs/webhook-dispatch.md. */
export const pendingDeliveries = pgTable(
  'pending_deliveries',
  {
    deliveryId: text('delivery_id').primaryKey(),
    endpointId: text('endpoint_id').notNull(),
    objectId: text('object_id').notNull(),
    /** of the event: deliveries of one object to one endpoint are made in this order */
    sequence: bigint({ mode: 'number' }).notNull(),
    /** deliveries of an endpoint wait in three lines: 0 retried by hand, 1 live, 2 of a bulk replay. See LINES of src/db/outbox.ts */
    line: smallint().notNull().default(1),
    /** no run gets it before; in microseconds, so that what is due now is due for the next statement */
    dueAt: timestamp('due_at', { withTimezone: true }).notNull(),
    /** what it waits for until `dueAt`: 'retry', its next attempt; 'order', an earlier delivery of its object; null: nothing */
    waitsFor: text('waits_for'),
    /** an attempt was made in the retry schedule that is in force */
    attempted: boolean().notNull().default(false),
    /** runs that it has been given to */
    runs: integer().notNull().default(0),
    /** the run that has it; null: none */
    workflowId: text('workflow_id'),
    claimedAt: at('claimed_at'),
    /** the run is known to Temporal */
    startedAt: at('started_at'),
    replayId: text('replay_id'),
  },
  (t) => [
    // who waits longest, in each line of each endpoint
    index('pending_deliveries_due').on(t.endpointId, t.line, t.dueAt, t.deliveryId).where(sql`workflow_id is null`),
    index('pending_deliveries_order').on(t.endpointId, t.objectId, t.sequence),
    index('pending_deliveries_run').on(t.endpointId, t.workflowId).where(sql`workflow_id is not null`),
    index('pending_deliveries_replay').on(t.replayId).where(sql`replay_id is not null`),
    check('pending_deliveries_waits_for', sql`waits_for in ('retry', 'order')`),
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

/** Attempts by endpoint, minute and outcome: the plots of the overview read them, however many attempts there were. */
export const attemptCounts = pgTable(
  'attempt_counts',
  {
    /** start of the minute in which the attempts began */
    minute: at('minute').notNull(),
    endpointId: text('endpoint_id').notNull(),
    succeeded: integer().notNull(),
    failed: integer().notNull(),
  },
  (t) => [primaryKey({ columns: [t.minute, t.endpointId] })],
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
