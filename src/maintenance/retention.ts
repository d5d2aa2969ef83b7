import { type SQL, sql } from 'drizzle-orm';
import type { Db } from '../db/driver/client.ts';
import { deleteUnusedTracking } from '../db/queries/tracking.ts';
import { deleteEndedDrafts } from '../outgoing/draft-state.ts';
import { deleteEndedSends } from '../outgoing/send-state.ts';

/** Rows that are deleted at an age. */
export interface Retention {
  /** what they are, for logs */
  rows: string;
  ageMs: number;
  /** deletes some of those from before `before`; returns how many, or how many it looked at: 0 when none are left */
  deleteBefore(db: Db, before: Date): Promise<number>;
}

const DAY_MS = 24 * 60 * 60 * 1000;
const days = (count: number, rows: string, deleteBefore: Retention['deleteBefore']): Retention => ({
  rows,
  ageMs: count * DAY_MS,
  deleteBefore,
});

/**
 * How long everything that expires is stored. `auditRetentionMs`: see Config; default: 90 days. The workflow `housekeeping`
 * deletes what is older, every hour.
 */
export function retentions({ auditRetentionMs = 90 * DAY_MS }: { auditRetentionMs?: number }): readonly Retention[] {
  return [
    days(30, 'deliveries', deleteDeliveriesBefore),
    days(30, 'events', deleteEventsBefore),
    // the overview shows a day
    days(7, 'attempt counts', deleteAttemptCountsBefore),
    days(30, 'alerts', deleteAlertsBefore),
    // responses to idempotent calls
    days(1, 'idempotency keys', deleteIdempotencyKeysBefore),
    days(30, 'sends', deleteEndedSends),
    days(30, 'drafts', deleteEndedDrafts),
    days(30, 'batches', deleteBatchesBefore),
    // the tracking of a deleted email, whose links in other mailboxes work that long
    days(365, 'tracking records', deleteUnusedTracking),
    // these have ended
    days(0, 'sessions', deleteSessionsBefore),
    days(0, 'sign-ins', deleteSignInsBefore),
    days(7, 'sign-ins on another device', deleteDeviceSignInsBefore),
    // the connect page says for a week that a link has expired
    days(7, 'auth links', deleteAuthLinksBefore),
    // a run that lost its worker waits until one is available again
    days(7, 'finished runs', deleteFinishedRunsBefore),
    { rows: 'audit records', ageMs: auditRetentionMs, deleteBefore: deleteAuditRecordsBefore },
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
      delete from batch_items where ctid = any(array(
        select i.ctid from batch_items i join old on old.id = i.batch_id limit ${ROWS_PER_STATEMENT}
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
  return deleteOldest(db, before, { table: sql`attempt_counts`, at: sql`minute` });
}

/** Deletes audit records from before `before`; returns how many. */
export function deleteAuditRecordsBefore(db: Db, before: Date): Promise<number> {
  return deleteOldest(db, before, { table: sql`audit_records`, at: sql`at` });
}

/** Deletes stored responses of idempotent calls from before `before`, but not of keys that a call has just reserved again; returns how many. */
function deleteIdempotencyKeysBefore(db: Db, before: Date): Promise<number> {
  return deleteOldest(db, before, { table: sql`idempotency_keys`, at: sql`created_at` });
}

/** Deletes sessions that ended before `before`; returns how many. */
function deleteSessionsBefore(db: Db, before: Date): Promise<number> {
  return deleteOldest(db, before, { table: sql`sessions`, at: sql`expires_at` });
}

/** Deletes sign-ins at a provider that expired before `before`; returns how many. */
function deleteSignInsBefore(db: Db, before: Date): Promise<number> {
  return deleteOldest(db, before, { table: sql`oauth_sign_ins`, at: sql`expires_at` });
}

/** Deletes sign-ins on another device that expired before `before`, connected or not; returns how many. */
function deleteDeviceSignInsBefore(db: Db, before: Date): Promise<number> {
  return deleteOldest(db, before, { table: sql`device_sign_ins`, at: sql`expires_at` });
}

/** Deletes links to the connect page that expired before `before`, used or not; returns how many. */
function deleteAuthLinksBefore(db: Db, before: Date): Promise<number> {
  return deleteOldest(db, before, { table: sql`auth_links`, at: sql`expires_at` });
}

/** Deletes the records of runs that finished before `before`; returns how many. */
export function deleteFinishedRunsBefore(db: Db, before: Date): Promise<number> {
  return deleteOldest(db, before, { table: sql`finished_runs`, at: sql`finished_at` });
}

/** Deletes the oldest rows of a table whose `at` is before `before`; returns how many. */
function deleteOldest(db: Db, before: Date, { table, at }: { table: SQL; at: SQL }): Promise<number> {
  const isOld = sql`${at} < ${before.toISOString()}::timestamptz`;
  return count(
    db,
    // by their ctid: no index serves a list of keys of several columns. Asked again of a row that was changed since
    sql`
    with expired as (
      delete from ${table} where ctid = any(array(
        select ctid from ${table} where ${isOld} order by ${at} limit ${ROWS_PER_STATEMENT}
      )) and ${isOld} returning ${at}
    )
    select count(*) from expired`,
  );
}

async function count(db: Db, statement: SQL): Promise<number> {
  const { rows } = await db.execute<{ count: string }>(statement);
  return Number(rows[0]?.count ?? 0);
}
