import { type SQL, sql } from 'drizzle-orm';
import type { Db } from '../db/driver/client.ts';
import { deleteUnusedTracking } from '../db/queries/tracking.ts';
import { deleteEndedDrafts } from '../outgoing/draft-state.ts';
import { deleteEndedSends } from '../outgoing/send-state.ts';

/** Rows that are deleted at an age. */
export interface Retention {
  ageMs: number;
  /** deletes some of those from before `before`; returns how many */
  deleteBefore(db: Db, before: Date): Promise<number>;
}

const DAY_MS = 24 * 60 * 60 * 1000;
const days = (count: number, deleteBefore: Retention['deleteBefore']): Retention => ({
  ageMs: count * DAY_MS,
  deleteBefore,
});

/**
 * How long everything that expires is stored. `auditRetentionMs`: see Config; default: 90 days. The workflow `housekeeping`
 * deletes what is older, every hour.
 */
export function retentions({ auditRetentionMs = 90 * DAY_MS }: { auditRetentionMs?: number }): readonly Retention[] {
  return [
    days(30, deleteDeliveriesBefore),
    days(30, deleteEventsBefore),
    // the overview shows a day
    days(7, deleteAttemptCountsBefore),
    days(30, deleteAlertsBefore),
    // responses to idempotent calls
    days(1, deleteIdempotencyKeysBefore),
    days(30, deleteEndedSends),
    days(30, deleteEndedDrafts),
    days(30, deleteBatchesBefore),
    // the tracking of a deleted email, whose links in other mailboxes work that long
    days(365, deleteUnusedTracking),
    // these have ended
    days(0, deleteSessionsBefore),
    days(0, deleteSignInsBefore),
    days(7, deleteDeviceSignInsBefore),
    // the connect page says for a week that a link has expired
    days(7, deleteAuthLinksBefore),
    // a run that lost its worker waits until one is available again
    days(7, deleteFinishedRunsBefore),
    { ageMs: auditRetentionMs, deleteBefore: deleteAuditRecordsBefore },
  ];
}

/** Small enough for one statement to take well under a second. */
const ROWS_PER_STATEMENT = 1_000;

/** Deletes deliveries from before `before` that are not pending, with their attempts; returns how many. */
export async function deleteDeliveriesBefore(db: Db, before: Date): Promise<number> {
  return count(
    db,
    sql`
    with expired as (
      delete from deliveries where id = any(array(
        select id from deliveries where created_at < ${before.toISOString()}::timestamptz and status <> 'pending'
        order by created_at, id limit ${ROWS_PER_STATEMENT}
        -- asked again of a row that a retry had locked: it is pending by now
      )) and status <> 'pending' returning id
    ), attempt as (delete from delivery_attempts where delivery_id in (select id from expired))
    select count(*) from expired`,
  );
}

/** Deletes messages to operators from before `before`, and problems that were over; returns how many. */
export async function deleteAlertsBefore(db: Db, before: Date): Promise<number> {
  return count(
    db,
    sql`
    with over as (
      delete from alerts where id = any(array(
        select id from alerts where closed_at < ${before.toISOString()}::timestamptz order by closed_at limit ${ROWS_PER_STATEMENT}
      )) returning id
    ), message as (
      delete from alert_messages where id = any(array(
        select id from alert_messages where created_at < ${before.toISOString()}::timestamptz
        order by created_at limit ${ROWS_PER_STATEMENT}
      )) returning id
    )
    select (select count(*) from over) + (select count(*) from message) as count`,
  );
}

/** Deletes events from before `before` that have no delivery; returns how many. */
export async function deleteEventsBefore(db: Db, before: Date): Promise<number> {
  return count(
    db,
    sql`
    with expired as (
      delete from events where id = any(array(
        select e.id from events e where e.created_at < ${before.toISOString()}::timestamptz
          and not exists (select from deliveries d where d.event_id = e.id)
        order by e.created_at, e.id limit ${ROWS_PER_STATEMENT}
      )) returning id
    )
    select count(*) from expired`,
  );
}

/** Deletes completed batches from before `before`, some of their emails first; returns how many rows. */
function deleteBatchesBefore(db: Db, before: Date): Promise<number> {
  return count(
    db,
    sql`
    with old as (
      select id from batches where created_at < ${before.toISOString()}::timestamptz and status = 'completed'
      order by created_at, id limit 1
    ), items as (
      delete from batch_items where (batch_id, position) = any(array(
        select (i.batch_id, i.position) from batch_items i join old on old.id = i.batch_id limit ${ROWS_PER_STATEMENT}
      )) returning position
    ), empty as (
      delete from batches where id in (select id from old)
        and (select count(*) from items) < ${ROWS_PER_STATEMENT} returning id
    )
    select (select count(*) from items) + (select count(*) from empty) as count`,
  );
}

/** Deletes counts of attempts from before `before`; returns how many. */
function deleteAttemptCountsBefore(db: Db, before: Date): Promise<number> {
  return deleteOldest(db, before, { table: sql`attempt_counts`, key: sql`(minute, endpoint_id)`, at: sql`minute` });
}

/** Deletes audit records from before `before`; returns how many. */
export function deleteAuditRecordsBefore(db: Db, before: Date): Promise<number> {
  return deleteOldest(db, before, { table: sql`audit_records`, key: sql`id`, at: sql`at` });
}

/** Deletes stored responses of idempotent calls from before `before`; returns how many. */
async function deleteIdempotencyKeysBefore(db: Db, before: Date): Promise<number> {
  return count(
    db,
    sql`
    with expired as (
      delete from idempotency_keys where (api_key_id, key) in (
        select api_key_id, key from idempotency_keys where created_at < ${before.toISOString()}::timestamptz
        order by created_at limit ${ROWS_PER_STATEMENT}
      ) returning key
    )
    select count(*) from expired`,
  );
}

/** Deletes sessions that ended before `before`; returns how many. */
function deleteSessionsBefore(db: Db, before: Date): Promise<number> {
  return deleteOldest(db, before, { table: sql`sessions`, key: sql`digest`, at: sql`expires_at` });
}

/** Deletes sign-ins at a provider that expired before `before`; returns how many. */
function deleteSignInsBefore(db: Db, before: Date): Promise<number> {
  return deleteOldest(db, before, { table: sql`oauth_sign_ins`, key: sql`id`, at: sql`expires_at` });
}

/** Deletes sign-ins on another device that expired before `before`, connected or not; returns how many. */
function deleteDeviceSignInsBefore(db: Db, before: Date): Promise<number> {
  return deleteOldest(db, before, { table: sql`device_sign_ins`, key: sql`id`, at: sql`expires_at` });
}

/** Deletes links to the connect page that expired before `before`, used or not; returns how many. */
function deleteAuthLinksBefore(db: Db, before: Date): Promise<number> {
  return deleteOldest(db, before, { table: sql`auth_links`, key: sql`id`, at: sql`expires_at` });
}

/** Deletes the records of runs that finished before `before`; returns how many. */
export function deleteFinishedRunsBefore(db: Db, before: Date): Promise<number> {
  return deleteOldest(db, before, { table: sql`finished_runs`, key: sql`run_id`, at: sql`finished_at` });
}

/** Deletes the oldest rows of a table whose `at` is before `before`; returns how many. */
function deleteOldest(db: Db, before: Date, { table, key, at }: { table: SQL; key: SQL; at: SQL }): Promise<number> {
  return count(
    db,
    sql`
    with expired as (
      delete from ${table} where ${key} = any(array(
        select ${key} from ${table} where ${at} < ${before.toISOString()}::timestamptz
        order by ${at}, ${key} limit ${ROWS_PER_STATEMENT}
      )) returning ${key}
    )
    select count(*) from expired`,
  );
}

async function count(db: Db, statement: SQL): Promise<number> {
  const { rows } = await db.execute<{ count: string }>(statement);
  return Number(rows[0]?.count ?? 0);
}
