import { and, eq, isNotNull, isNull, type SQL, sql } from 'drizzle-orm';
import type { PgTable } from 'drizzle-orm/pg-core';
import { ApiError } from '../../contract/errors.ts';
import type { Db, Queryable } from '../driver/client.ts';
import { inChunks } from '../driver/in-chunks.ts';
import {
  accounts,
  attachments,
  batches,
  batchItems,
  authLinks,
  connectIntents,
  contacts,
  drafts,
  emailContents,
  emailSearch,
  emails,
  pathReservations,
  folders,
  idempotencyKeys,
  importFolders,
  imports,
  locations,
  mergingThreads,
  sends,
  threadKeys,
  threads,
  threadSummaries,
  trackingRecords,
} from '../schema/index.ts';

/**
 * All tables of an account except its own row and its events and deliveries, which stay in the log until they expire,
 * without their content: `eraseEvents`.
 */
const MAIL_TABLES = [
  attachments,
  emailContents,
  emailSearch,
  locations,
  drafts,
  sends,
  trackingRecords,
  contacts,
  threadKeys,
  mergingThreads,
  threads,
  // before emails: their trigger changes no summary then
  threadSummaries,
  emails,
  importFolders,
  imports,
  folders,
  pathReservations,
  connectIntents,
  idempotencyKeys,
  batchItems,
  batches,
];

/** Small enough for one statement to take well under a second. */
const ROWS_PER_STATEMENT = 2_000;

/** Deletes an account's mail, table by table, in statements of bounded size. Repeating it deletes what remains. */
export async function deleteMailRows(db: Db, accountId: string): Promise<void> {
  for (const table of MAIL_TABLES) {
    await deleteRows(db, table, sql`account_id = ${accountId}`);
  }
}

async function deleteRows(db: Db, table: PgTable, where: SQL): Promise<void> {
  const some = sql`select ctid from ${table} where ${where} limit ${ROWS_PER_STATEMENT}`;
  await inChunks(ROWS_PER_STATEMENT, () => db.execute(sql`delete from ${table} where ctid = any (array(${some}))`));
}

/** Whether the account's removal has begun and not ended. */
export async function isBeingRemoved(db: Queryable, accountId: string): Promise<boolean> {
  const rows = await db
    .select({ id: accounts.id })
    .from(accounts)
    .where(and(eq(accounts.id, accountId), isNotNull(accounts.removedAt)));
  return rows.length > 0;
}

/** The database was restored to a time before the removal of an account: the removal must not go further. */
export class AccountRestored extends ApiError {
  override readonly name = 'AccountRestored';
  constructor() {
    super('already_exists', 'the account was restored after its removal began');
  }
}

/**
 * Passes for an account whose removal has begun, or has ended.
 * @throws AccountRestored
 */
export async function checkNotRestored(db: Queryable, accountId: string): Promise<void> {
  const rows = await db
    .select({ id: accounts.id })
    .from(accounts)
    .where(and(eq(accounts.id, accountId), isNull(accounts.removedAt)));
  if (rows.length > 0) throw new AccountRestored();
}

/** Deletes the row of an account that is being removed. */
export async function deleteAccountRow(db: Queryable, accountId: string): Promise<void> {
  await db.delete(accounts).where(and(eq(accounts.id, accountId), isNotNull(accounts.removedAt)));
}

/** `data` of an event whose content was erased: the log knows that it happened, and nothing gives it out again. */
export const ERASED = '{}';

/** Whether the content of the event `e` was erased, as `events_erased` has it. */
export const IS_ERASED = sql.raw(`e.data = '${ERASED}'`);
/** Whether the event `e` has its content, as the indexes of the feed have it. */
export const IS_WHOLE = sql.raw(`e.data <> '${ERASED}'`);
/** Whether a delivery of the event `e` is pending. */
const IS_PENDING = sql.raw("exists (select from deliveries d where d.event_id = e.id and d.status = 'pending')");

/** The erased `data` of an account's events: empty, except that the last one names the account. Those of an OAuth app hold nothing of it. */
const ERASED_DATA = sql`case when e.type = 'account.remove'
  then '{"account":{"id":"' || e.account_id || '","user_id":"","name":"","provider":"imap"}}'
  when e.type like 'oauth_app.%' then e.data else '${sql.raw(ERASED)}' end`;

/**
 * Erases the `data` of an account's events, except those with pending deliveries unless `evenPending`: these are delivered
 * without it. True: all are erased, and those that stay are not pending. Only `IS_WHOLE` lets the index of the account's feed serve it.
 */
export async function eraseEvents(
  db: Db,
  accountId: string,
  { evenPending }: { evenPending: boolean },
): Promise<boolean> {
  await inChunks(ROWS_PER_STATEMENT, () =>
    db.execute(sql`
      update events e set data = ${ERASED_DATA} where e.id = any(array(
        select e.id from events e
        where e.account_id = ${accountId} and ${IS_WHOLE} and e.data <> ${ERASED_DATA}
          and (${evenPending} or not ${IS_PENDING})
        limit ${ROWS_PER_STATEMENT}
      ))`),
  );
  const { rows } = await db.execute(
    sql`select from events e where e.account_id = ${accountId} and ${IS_WHOLE} and (e.data <> ${ERASED_DATA}
      or (e.type = 'account.remove' or e.type like 'oauth_app.%') and ${IS_PENDING}) limit 1`,
  );
  return rows.length === 0;
}

/**
 * Erases the `data` of the events of these objects, and notes those with pending deliveries for `eraseDelivered`. The caller
 * bounds their number.
 */
export async function eraseEventsOf(db: Queryable, accountId: string, objectIds: readonly string[]): Promise<void> {
  await db.execute(sql`
    with own as (
      select e.id, ${IS_PENDING} as is_pending from events e
      where e.object_id = any(${sql.param(objectIds)}::text[]) and e.account_id = ${accountId} and ${IS_WHOLE}
    ), noted as (
      insert into events_to_erase (event_id) select id from own where is_pending on conflict do nothing
    )
    update events e set data = '${sql.raw(ERASED)}' from own where e.id = own.id and not own.is_pending`);
}

/** Erases the `data` of noted events whose deliveries have ended. */
export async function eraseDelivered(db: Db): Promise<void> {
  await inChunks(ROWS_PER_STATEMENT, () =>
    db.execute(sql`
      with due as (
        delete from events_to_erase where event_id = any(array(
          select e.id from (select event_id as id from events_to_erase) e where not ${IS_PENDING} limit ${ROWS_PER_STATEMENT}
        )) returning event_id
      ), erased as (
        update events e set data = '${sql.raw(ERASED)}' from due where e.id = due.event_id and ${IS_WHOLE}
      )
      select from due`),
  );
}

/** Deletes the links that connected an account or were created to reconnect it: they hold data of its owner. */
export async function deleteLinksOf(db: Db, accountId: string): Promise<void> {
  await deleteRows(db, authLinks, sql`account_id = ${accountId} or connected_id = ${accountId}`);
}

/**
 * Erases the owner's data in the row of an account that is being removed; the row stays until the removal is complete.
 */
export async function eraseAccount(db: Queryable, accountId: string): Promise<void> {
  const erased = { userId: '', name: '', mailboxKey: '', imapHost: '', imapUser: '', smtpHost: '', smtpUser: '' };
  await db
    .update(accounts)
    .set({ ...erased, metadata: {}, watchFailure: '' })
    .where(and(eq(accounts.id, accountId), isNotNull(accounts.removedAt)));
}
