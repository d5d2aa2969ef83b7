import { and, eq, gt, isNotNull, lt, type SQL, sql } from 'drizzle-orm';
import type { Attendee } from '../contract/email.ts';
import type { SendInput } from '../contract/sending.ts';
import { anyOf } from '../db/driver/any-of.ts';
import type { Db, Queryable, Tx } from '../db/driver/client.ts';
import { drafts, emails } from '../db/schema/index.ts';
import { STALE_AFTER_MS } from './send-state.ts';

/*
 * The only file that writes `drafts.state` and `drafts.held_by`; each transition is one function.
 *
 * state       what it means                                         next
 * saving      requested; the message may be in Drafts already       active (it was ingested), failed
 * active      identifies the email in Drafts                        superseded, sent, deleted
 * superseded  another `drf_…` id replaced it                        final
 * sent        it was sent                                           final
 * deleted     its email left Drafts                                 final
 * failed      it was not saved, the caller knows                    saving (the caller repeats it, same id),
 *                                                                   active (its message was in Drafts after all)
 *
 * `held_by` names the save or the send that has reserved an active draft: only that one may replace or send it. A
 * reservation ends with its save or send, and with the draft's state `active`.
 */
export type DraftState = 'saving' | 'active' | 'superseded' | 'sent' | 'deleted' | 'failed';

export interface DraftRow {
  id: string;
  accountId: string;
  emailId: string | null;
  messageId: string | null;
  state: DraftState;
  supersededBy: string | null;
  heldBy: string | null;
  inputKey: string | null;
  metadata: string | null;
  trackingId: string | null;
  tracking: SendInput['tracking_options'] | null;
  /** the email that it forwards */
  forwardedId: string | null;
}

/** A draft that the caller asks to save. */
export type NewDraft = Pick<DraftRow, 'id' | 'accountId' | 'inputKey' | 'metadata' | 'trackingId' | 'tracking'> & {
  forwardedId?: string | null;
};

/** Loads a draft in any state; undefined when the account does not have it. */
export async function loadDraft(db: Queryable, accountId: string, id: string): Promise<DraftRow | undefined> {
  const [row] = await db
    .select()
    .from(drafts)
    .where(and(eq(drafts.id, id), eq(drafts.accountId, accountId)));
  return row && { ...row, state: row.state as DraftState };
}

/** The active draft with a `drf_…` or an `email_…` id, while its email is in Drafts. */
export async function findDraft(db: Queryable, accountId: string, id: string): Promise<DraftRow | undefined> {
  const [row] = await db
    .select({ draft: drafts })
    .from(drafts)
    .innerJoin(emails, and(eq(emails.draftId, drafts.id), eq(emails.isDraft, true)))
    .where(
      and(
        eq(drafts.accountId, accountId),
        id.startsWith('drf_') ? eq(drafts.id, id) : eq(emails.id, id),
        eq(drafts.state, 'active'),
      ),
    );
  return row && { ...row.draft, state: 'active' };
}

/** The storage key of an email's raw message, and its Bcc; undefined when the account does not have the email. */
export async function storedSource(
  db: Queryable,
  accountId: string,
  emailId: string,
): Promise<{ key: string; bcc: Attendee[] } | undefined> {
  const [row] = await db
    .select({ key: emails.storageKey, bcc: emails.bccAttendees })
    .from(emails)
    .where(and(eq(emails.id, emailId), eq(emails.accountId, accountId)));
  return row;
}

/** How many entries To, Cc and Bcc of a draft have. */
export async function recipientsOfDraft(db: Queryable, id: string): Promise<number> {
  const { rows } = await db.execute<{ count: number }>(sql`
    select jsonb_array_length(to_attendees || cc_attendees || bcc_attendees) as count from emails where draft_id = ${id}`);
  return rows[0]?.count ?? 0;
}

/** A draft that this API saves, by its Message-ID. */
export interface AwaitedDraft {
  id: string;
  messageId: string;
  trackingId: string | null;
}

/**
 * A part of a statement: drafts with these Message-IDs that are being saved, or were given up but may still be in Drafts, as
 * a JSON array of AwaitedDraft.
 */
export function awaitedDrafts(accountId: string, messageIds: string[]): SQL {
  return sql`(
    select coalesce(json_agg(json_build_object('id', id, 'messageId', message_id, 'trackingId', tracking_id)), '[]')
    from drafts
    where account_id = ${accountId} and ${anyOf(drafts.messageId, messageIds)} and state in ('saving', 'failed'))`;
}

/**
 * Records a draft that is about to be saved: new → saving, failed → saving; any other is left as it is.
 * @returns the draft, and whether this call asks for the save
 */
export async function recordDraft(db: Queryable, draft: NewDraft): Promise<{ draft: DraftRow; isNew: boolean }> {
  // renewed and judged by the clock of the database
  const now = sql`now()`;
  const [row] = await db
    .insert(drafts)
    .values({ ...draft, state: 'saving', createdAt: now, updatedAt: now })
    .onConflictDoUpdate({
      target: drafts.id,
      set: { state: 'saving', inputKey: draft.inputKey, updatedAt: now },
      setWhere: eq(drafts.state, 'failed'),
    })
    .returning();
  if (row) return { draft: { ...row, state: 'saving' }, isNew: true };
  return { draft: (await loadDraft(db, draft.accountId, draft.id)) as DraftRow, isNew: false };
}

/** Assigns a Message-ID to a draft that is being saved, unless it has one. @returns its Message-ID */
export async function assignMessageId(db: Queryable, id: string, messageId: string): Promise<string> {
  const [row] = await db
    .update(drafts)
    .set({ messageId: sql`coalesce(${drafts.messageId}, ${messageId})` })
    .where(eq(drafts.id, id))
    .returning({ messageId: drafts.messageId });
  return row?.messageId ?? messageId;
}

/** Records that the input file of a draft has been deleted. */
export async function clearDraftInput(db: Queryable, id: string): Promise<void> {
  await db.update(drafts).set({ inputKey: null }).where(eq(drafts.id, id));
}

/** An email that has entered Drafts, with its `drf_…` id. */
export interface EnteredDraft {
  draftId: string;
  emailId: string;
}

/**
 * new → active; saving | failed → active, for drafts that were saved through the API, and active → superseded for those that they
 * replace. One statement.
 */
export async function emailsEnteredDrafts(tx: Tx, entered: EnteredDraft[], now = new Date()): Promise<void> {
  if (entered.length === 0) return;
  const rows = entered.map(({ draftId, emailId }) => ({ id: draftId, email_id: emailId }));
  await tx.execute(sql`
    with entered as (insert into drafts (id, account_id, email_id, message_id, state, created_at, updated_at)
    select r.id, e.account_id, e.id, e.message_id, 'active', ${now.toISOString()}::timestamptz, ${now.toISOString()}::timestamptz
    from json_to_recordset(${JSON.stringify(rows)}::json) as r(id text, email_id text) join emails e on e.id = r.email_id
    on conflict (id) do update
      set email_id = excluded.email_id, state = 'active', held_by = null, updated_at = excluded.updated_at
      where drafts.state in ('saving', 'failed')
      returning id)
    update drafts d set state = 'superseded', superseded_by = d.held_by, held_by = null, updated_at = now()
    from entered where d.held_by = entered.id and d.state = 'active'`);
}

/**
 * active → sent when the email was sent by moving it to Sent, else active → deleted. Final states stay. All of these drafts
 * lose their email. One statement.
 */
export async function emailsLeftDrafts(tx: Tx, draftIds: string[], { sent }: { sent: boolean }): Promise<void> {
  if (draftIds.length === 0) return;
  await tx.execute(leave(sent ? 'sent' : 'deleted', anyOf(drafts.id, draftIds)));
}

/** active → deleted for the drafts of these emails, which are being deleted. One statement. */
export async function draftsDeletedWithEmails(tx: Tx, emailIds: string[]): Promise<void> {
  if (emailIds.length === 0) return;
  await tx.execute(leave('deleted', anyOf(drafts.emailId, emailIds)));
}

function leave(to: 'sent' | 'deleted', which: ReturnType<typeof sql>) {
  return sql`
    update drafts set email_id = null, updated_at = now(),
      state = case when state = 'active' then ${to} else state end,
      held_by = case when state = 'active' then null else held_by end
    where ${which}`;
}

/** active → superseded: the draft `by` has replaced it. */
export function markDraftSuperseded(db: Queryable, id: string, by: string): Promise<void> {
  return end(db, id, 'superseded', by);
}

/** active → sent. */
export function markDraftSent(db: Queryable, id: string): Promise<void> {
  return end(db, id, 'sent');
}

/** active → deleted. */
export function markDraftDeleted(db: Queryable, id: string): Promise<void> {
  return end(db, id, 'deleted');
}

async function end(
  db: Queryable,
  id: string,
  state: 'superseded' | 'sent' | 'deleted',
  supersededBy: string | null = null,
): Promise<void> {
  await db
    .update(drafts)
    .set({ state, supersededBy, heldBy: null, updatedAt: sql`now()` })
    .where(and(eq(drafts.id, id), eq(drafts.state, 'active')));
}

/** saving → failed: it was not saved; releases the draft that it was to replace. */
export async function giveUpDraft(db: Queryable, id: string): Promise<void> {
  await db
    .update(drafts)
    .set({ state: 'failed', updatedAt: sql`now()` })
    .where(and(eq(drafts.id, id), eq(drafts.state, 'saving')));
  await releaseReservation(db, id);
}

/** Records that an attempt at the save is still running. The attempt calls it periodically. */
export async function renewDraft(db: Queryable, id: string): Promise<void> {
  await db
    .update(drafts)
    .set({ updatedAt: sql`now()` })
    .where(and(eq(drafts.id, id), eq(drafts.state, 'saving')));
}

/** Part of the drafts that a run should be working on: changed or renewed before `before`, with ids after `afterId`. */
interface DraftPage {
  before: Date;
  afterId: string;
  limit: number;
}

/** Drafts that are being saved, in the order of their ids. */
export async function draftsBeingSaved(db: Queryable, page: DraftPage): Promise<string[]> {
  return (await pageOf(db, eq(drafts.state, 'saving'), page)).map(({ id }) => id);
}

/** Superseded drafts whose messages are still in the mailbox, in the order of their ids. */
export async function supersededDrafts(
  db: Queryable,
  page: DraftPage,
): Promise<{ id: string; accountId: string; supersededBy: string }[]> {
  const rows = await pageOf(db, and(eq(drafts.state, 'superseded'), isNotNull(drafts.emailId)), page);
  return rows.map((row) => ({ ...row, supersededBy: row.supersededBy ?? '' }));
}

function pageOf(db: Queryable, which: SQL | undefined, { before, afterId, limit }: DraftPage) {
  return db
    .select({ id: drafts.id, accountId: drafts.accountId, supersededBy: drafts.supersededBy })
    .from(drafts)
    .where(and(which, lt(drafts.updatedAt, before), gt(drafts.id, afterId)))
    .orderBy(drafts.id)
    .limit(limit);
}

/** Holders that no attempt has renewed for so long died with their process. */
const LONGEST_RESERVATION = sql`interval '15 minutes'`;

/** Whether a running save or send has reserved the row of `drafts`. */
const RESERVED = sql`(held_by is not null and (
  exists (select from drafts h where h.id = drafts.held_by and h.state = 'saving'
    and h.updated_at > now() - ${LONGEST_RESERVATION})
  or exists (select from sends h where h.id = drafts.held_by and h.state in ('queued', 'submitting')
    and h.updated_at > now() - ${LONGEST_RESERVATION})))`;

/** Whether a save or a send of the draft is running. */
export async function isReserved(db: Queryable, { id }: { id: string }): Promise<boolean> {
  const { rows } = await db.execute(sql`select from drafts where id = ${id} and ${RESERVED}`);
  return rows.length > 0;
}

/**
 * Reserves an active draft for the save or the send `by`.
 * @returns the id that holds the reservation, `by` or another; undefined when the draft is not active
 */
export async function reserveDraft(tx: Tx, id: string, by: string): Promise<string | undefined> {
  // A statement that waits for a lock reads the other tables as of its start, and would miss the holder of the lock.
  await tx.execute(sql`select from drafts where id = ${id} for update`);
  await tx.execute(sql`update drafts set held_by = ${by} where id = ${id} and state = 'active' and not ${RESERVED}`);
  const [row] = await tx
    .select({ heldBy: drafts.heldBy })
    .from(drafts)
    .where(and(eq(drafts.id, id), eq(drafts.state, 'active')));
  return row?.heldBy ?? undefined;
}

/** Releases the reservation of `by`, if any. */
export async function releaseReservation(db: Queryable, by: string): Promise<void> {
  await db.update(drafts).set({ heldBy: null }).where(eq(drafts.heldBy, by));
}

/** Drafts per statement whose files are deleted. */
const FILES_PER_STEP = 500;

/**
 * saving → failed for drafts whose workflow was never started, since the process died in between. Then deletes the input
 * files of failed drafts.
 */
export async function giveUpStaleDrafts(
  db: Db,
  now: Date,
  deleteFiles: (keys: string[]) => Promise<void>,
): Promise<void> {
  const before = new Date(now.getTime() - STALE_AFTER_MS).toISOString();
  await db.execute(sql`
    update drafts set state = 'failed' where state = 'saving' and updated_at < ${before}::timestamptz`);
  for (;;) {
    const { rows } = await db.execute<{ id: string; key: string }>(sql`
      select id, input_key as key from drafts
      where state = 'failed' and updated_at < ${before}::timestamptz and input_key is not null limit ${FILES_PER_STEP}`);
    if (rows.length === 0) return;
    await deleteFiles(rows.map(({ key }) => key));
    await db.execute(sql`
      update drafts set input_key = null
      where id = any(${sql.param(rows.map(({ id }) => id))}::text[]) and state = 'failed'
        and updated_at < ${before}::timestamptz`);
  }
}

/** Small enough for one statement to take well under a second. */
const ROWS_PER_STATEMENT = 1_000;

/**
 * Deletes drafts that failed or reached a final state before `before`, and whose email has left Drafts. Readers did not find
 * their ids before either. @returns how many
 */
export async function deleteEndedDrafts(db: Db, before: Date): Promise<number> {
  const { rowCount } = await db.execute(sql`
    delete from drafts where id = any(array(
      select id from drafts
      where state in ('superseded', 'sent', 'deleted', 'failed') and updated_at < ${before.toISOString()}::timestamptz
        and email_id is null and input_key is null
      order by updated_at limit ${ROWS_PER_STATEMENT}
      -- asked again of a row that was changed since
    )) and updated_at < ${before.toISOString()}::timestamptz`);
  return rowCount ?? 0;
}
