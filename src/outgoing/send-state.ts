import { and, eq, getTableColumns, gt, isNotNull, isNull, lt, or, type SQL, sql } from 'drizzle-orm';
import type { Email, SentBy } from '../contract/email.ts';
import type { SendInput } from '../contract/sending.ts';
import { anyOf } from '../db/driver/any-of.ts';
import type { Db, Queryable, Tx } from '../db/driver/client.ts';
import { notification } from '../db/coordination/finished-runs.ts';
import { fromRow } from '../db/driver/rows.ts';
import { statement } from '../db/driver/statement.ts';
import { type SendResult, sends } from '../db/schema/index.ts';
import type { Writer } from '../db/driver/writes.ts';
import { storedCopy } from './sent-mail.ts';

/*
 * The only file that writes `sends.state`; each transition is one function.
 *
 * state       what it means                                          next
 * queued      nothing has left yet                                   submitting, failed, sent (it was made before)
 * submitting  committed before the first byte of the message leaves  sent, queued (nothing was accepted), unknown
 * sent        the SMTP server accepted it                            final
 * unknown     it may have been accepted: never sent again            sent (its copy was found), queued (nothing was accepted)
 * failed      it was not sent, the caller knows                      queued (the caller repeats it, same id)
 *
 * An attempt that the SMTP server accepted ends as `sent`, even if another attempt has changed the row.
 */
export type SendState = 'queued' | 'submitting' | 'sent' | 'unknown' | 'failed';

/** A row of `sends`, as its activities need it. */
export interface SendRow {
  id: string;
  accountId: string;
  state: SendState;
  messageId: string | null;
  /** see sends.server_message_id */
  serverMessageId: string | null;
  draftId: string | null;
  metadata: string | null;
  trackingId: string | null;
  tracking: SendInput['tracking_options'] | null;
  /** the email that it forwards */
  forwardedId: string | null;
  inputKey: string | null;
  storageKey: string | null;
  result: SendResult | null;
  /** a provisional Email is shown until the Sent copy has synced */
  hasProvisional: boolean;
  sentBy: SentBy;
  /** milliseconds since the row was changed or renewed */
  unchangedMs: number;
}

/** A send that the caller requests. */
export interface NewSend {
  id: string;
  accountId: string;
  draftId: string | null;
  apiKeyId: string;
  apiKeyName: string;
  metadata: string | null;
  trackingId: string | null;
  tracking: SendInput['tracking_options'] | null;
  forwardedId?: string | null;
  inputKey: string | null;
}

const { email, ...SMALL } = getTableColumns(sends);
/** Without the provisional Email, which may be large. */
const COLUMNS = { ...SMALL, hasProvisional: sql<boolean>`${email} is not null` };

type LoadedRow = Omit<typeof sends.$inferSelect, 'email'> & Pick<SendRow, 'hasProvisional' | 'unchangedMs'>;

function toSendRow(row: LoadedRow): SendRow {
  const { id, accountId, messageId, serverMessageId, draftId, metadata, trackingId, tracking, forwardedId } = row;
  const { inputKey, storageKey, result, hasProvisional, unchangedMs } = row;
  return {
    ...{ id, accountId, messageId, serverMessageId, draftId, metadata, trackingId, tracking, forwardedId },
    ...{ inputKey, storageKey, result, hasProvisional, unchangedMs },
    state: row.state as SendState,
    sentBy: { api_key_id: row.apiKeyId, api_key_name: row.apiKeyName, metadata },
  };
}

const SMALL_COLUMNS = sql.raw(
  Object.values(SMALL)
    .map(({ name }) => `"${name}"`)
    .join(', '),
);
const sendOfAccount = statement(
  'send_of_account',
  (accountId: string, id: string) => sql`
    select ${SMALL_COLUMNS}, email is not null as has_provisional,
      (1000 * extract(epoch from now() - updated_at))::float8 as unchanged_ms
    from sends
    where id = ${id} and account_id = ${accountId}`,
);

/** Loads a send; undefined when the account does not have it. */
export async function loadSend(db: Queryable, accountId: string, id: string): Promise<SendRow | undefined> {
  const [row] = (await db.execute(sendOfAccount(accountId, id))).rows;
  if (!row) return undefined;
  const added = { hasProvisional: row['has_provisional'] === true, unchangedMs: Number(row['unchanged_ms']) };
  return toSendRow({ ...fromRow(sends, row), ...added });
}

/** Whether the message of a send was transmitted, or may have been. */
export async function mayHaveLeft(db: Queryable, accountId: string, id: string): Promise<boolean> {
  const send = await loadSend(db, accountId, id);
  return send?.state === 'sent' || send?.state === 'submitting';
}

/**
 * Records a send that is about to be made: new → queued, failed → queued; any other is left as it is.
 * @returns the send, and whether this call queued it
 */
export async function recordSend(db: Queryable, send: NewSend): Promise<{ send: SendRow; isNew: boolean }> {
  // renewed and judged by the clock of the database
  const now = sql`now()`;
  const [row] = await db
    .insert(sends)
    .values({ ...send, state: 'queued', createdAt: now, updatedAt: now })
    .onConflictDoUpdate({
      target: sends.id,
      set: { state: 'queued', inputKey: send.inputKey, updatedAt: now },
      setWhere: eq(sends.state, 'failed'),
    })
    .returning(COLUMNS);
  if (row) return { send: toSendRow({ ...row, unchangedMs: 0 }), isNew: true };
  return { send: (await loadSend(db, send.accountId, send.id)) as SendRow, isNew: false };
}

/** The message that an attempt is about to submit. */
export interface Composed {
  messageId: string;
  /** of the copy for Sent */
  storageKey: string;
  /** of its links, if it is not the one that was recorded */
  trackingId?: string;
  result: SendResult;
}

/**
 * After an outage another send may have reserved the draft of this one. The lock makes both wait for each other: only one of
 * them leaves.
 */
const HOLDS_DRAFT = sql`(${sends.draftId} is null or exists (
  select from drafts d where d.id = ${sends.draftId} and d.held_by = ${sends.id} and d.state = 'active' for share))`;

/**
 * queued → submitting, with the composed message: from here on it may have been sent. False when the send is no longer
 * queued, or does not hold its draft.
 */
export function markSubmitting(db: Queryable, id: string, composed: Composed): Promise<boolean> {
  return move(db, id, { from: ['queued'], to: 'submitting', where: HOLDS_DRAFT }, composed);
}

/**
 * submitting | unknown → queued: the SMTP server accepted nothing of this attempt, even if it was thought dead, so it may be
 * sent again. False when the row names the file of another attempt.
 */
export async function requeue(db: Queryable, id: string, storageKey: string): Promise<boolean> {
  const queued = await db
    .update(sends)
    .set({ state: 'queued', updatedAt: sql`now()` })
    .where(and(eq(sends.id, id), anyOf(sends.state, ['submitting', 'unknown']), eq(sends.storageKey, storageKey)))
    .returning({ id: sends.id });
  return queued.length > 0;
}

/** → sent: the SMTP server accepted it, maybe with another Message-ID, even if another attempt has changed the row. */
export function markSent(
  db: Queryable,
  id: string,
  result: SendResult,
  serverMessageId: string | null = null,
): Promise<boolean> {
  const from: SendState[] = ['queued', 'submitting', 'unknown', 'failed'];
  return move(db, id, { from, to: 'sent' }, { result, serverMessageId });
}

/** What is stored of a send whose copy is in Sent. `serverMessageId`: the Message-ID of the copy, if the provider replaced it. */
type Found = Partial<Composed> & Pick<SendRow, 'serverMessageId'> & { result: SendResult };
type SendOf = Pick<SendRow, 'id' | 'accountId'>;

/** submitting | unknown → sent: its copy was found in Sent. Returns and runs as `markSentBefore`. */
export function markFoundInSent(tx: Queryable, send: SendOf, found: Found): Promise<SendResult | undefined> {
  return moveToSent(tx, send, ['submitting', 'unknown'], found);
}

/**
 * queued → sent: it was sent before the store was set back, or by an earlier send of its draft, and Sent has its copy. Where that copy
 * is stored already, its email remains as it is, and the result names it; the draft has the same Message-ID and is not that copy.
 * Runs in a transaction of the account's holder.
 */
export function markSentBefore(tx: Queryable, send: SendOf, found: Found & Composed): Promise<SendResult | undefined> {
  return moveToSent(tx, send, ['queued'], found);
}

async function moveToSent(
  tx: Queryable,
  { id, accountId }: SendOf,
  from: SendState[],
  { result, ...values }: Found,
): Promise<SendResult | undefined> {
  const { messageId = null, serverMessageId } = values;
  const stored = await storedCopy(tx, accountId, [messageId, serverMessageId]);
  const found = { ...result, ...(stored === undefined ? {} : { emailId: stored }) };
  const isMarked = await move(tx, id, { from, to: 'sent' }, { ...values, result: found });
  if (isMarked && stored !== undefined)
    await tx.update(sends).set({ copyIngestedAt: new Date() }).where(eq(sends.id, id));
  return isMarked ? found : undefined;
}

/** Records that the mail server has confirmed the APPEND of the copy, but does not show it: it is not appended again. */
export async function markAppended(db: Queryable, id: string, at: Date): Promise<void> {
  const appended = JSON.stringify({ appendedAt: at.toISOString() });
  await db.execute(sql`
    update sends set result = coalesce(result, '{"rejected": []}') || ${appended}::jsonb where id = ${id}`);
}

/** submitting → unknown: the SMTP server may have accepted it. */
export function markOutcomeUnknown(db: Queryable, id: string): Promise<boolean> {
  return move(db, id, { from: ['submitting'], to: 'unknown' });
}

/** queued → failed: it has not left, and no longer can. False when it is no longer queued. */
export function giveUp(db: Queryable, id: string): Promise<boolean> {
  return move(db, id, { from: ['queued'], to: 'failed' });
}

async function move(
  db: Queryable,
  id: string,
  { from, to, where }: { from: SendState[]; to: SendState; where?: SQL },
  values: Partial<Composed> & { serverMessageId?: string | null } = {},
): Promise<boolean> {
  const moved = await db
    .update(sends)
    .set({ state: to, updatedAt: sql`now()`, ...values })
    .where(and(eq(sends.id, id), anyOf(sends.state, from), where))
    .returning({ id: sends.id });
  return moved.length > 0;
}

/** Records that an attempt at the send is still running. The attempt calls it periodically. */
export function renewSend(db: Queryable, id: string): Promise<void> {
  return renew(db, id, ['queued', 'submitting']);
}

/**
 * Records that a caller waits for a send that has not begun to leave. Once it has, the age of the row says whether its attempt
 * is alive.
 */
export function renewQueuedSend(db: Queryable, id: string): Promise<void> {
  return renew(db, id, ['queued']);
}

async function renew(db: Queryable, id: string, states: SendState[]): Promise<void> {
  await db
    .update(sends)
    .set({ updatedAt: sql`now()` })
    .where(and(eq(sends.id, id), anyOf(sends.state, states)));
}

/** A send that a run should be working on, by its state. */
export interface HeldSend {
  id: string;
  accountId: string;
  draftId: string | null;
}

/**
 * Sends that are `queued` or `submitting`, or `sent` without a copy in the store, and were changed or renewed before `before`;
 * in the order of their ids, from after `afterId`.
 */
export async function heldSends(
  db: Queryable,
  state: 'queued' | 'submitting' | 'sent',
  { before, afterId, limit }: { before: Date; afterId: string; limit: number },
): Promise<HeldSend[]> {
  const isOpen = state === 'sent' ? or(isNotNull(sends.storageKey), isNotNull(sends.inputKey)) : undefined;
  return db
    .select({ id: sends.id, accountId: sends.accountId, draftId: sends.draftId })
    .from(sends)
    .where(and(eq(sends.state, state), isOpen, lt(sends.updatedAt, before), gt(sends.id, afterId)))
    .orderBy(sends.id)
    .limit(limit);
}

/** Age at which a queued send, or a draft being saved, is given up unless an attempt has renewed it, ms. */
export const STALE_AFTER_MS = 2 * 60 * 60_000;
/** Sends per statement whose files are deleted. */
const FILES_PER_STEP = 500;

/**
 * queued → failed for sends whose workflow was never started, since the process died in between. Then deletes the
 * files of sends that ended without success.
 */
export async function giveUpStaleSends(
  db: Db,
  now: Date,
  deleteFiles: (keys: string[]) => Promise<void>,
): Promise<void> {
  const before = new Date(now.getTime() - STALE_AFTER_MS).toISOString();
  await db.execute(sql`
    update sends set state = 'failed' where state = 'queued' and updated_at < ${before}::timestamptz`);
  for (;;) {
    const { rows } = await db.execute<{ id: string; input_key: string | null; storage_key: string | null }>(sql`
      select id, input_key, storage_key from sends
      where state in ('failed', 'unknown') and updated_at < ${before}::timestamptz
        and (input_key is not null or storage_key is not null)
      limit ${FILES_PER_STEP}`);
    if (rows.length === 0) return;
    await deleteFiles(rows.flatMap((row) => [row.input_key, row.storage_key]).filter((key) => key !== null));
    const ids = sql.param(rows.map(({ id }) => id));
    await db.execute(sql`
      update sends set input_key = null, storage_key = null
      where id = any(${ids}::text[]) and state in ('failed', 'unknown') and updated_at < ${before}::timestamptz`);
  }
}

/** Small enough for one statement to take well under a second. */
const ROWS_PER_STATEMENT = 1_000;

/**
 * Deletes sends that ended before `before` and have nothing left to do: their Sent copy has been ingested, or they were
 * not sent. @returns how many
 */
export async function deleteEndedSends(db: Db, before: Date): Promise<number> {
  const { rowCount } = await db.execute(sql`
    delete from sends where id = any(array(
      select id from sends
      where created_at < ${before.toISOString()}::timestamptz and updated_at < ${before.toISOString()}::timestamptz
        and state in ('sent', 'unknown', 'failed')
        and input_key is null and storage_key is null and email is null
      order by created_at limit ${ROWS_PER_STATEMENT}
      -- asked again of a row that was changed since
    )) and updated_at < ${before.toISOString()}::timestamptz`);
  return rowCount ?? 0;
}

/** Stores the provisional email until the Sent copy has synced; false when it has synced, or a provisional email exists. */
export async function saveProvisional(tx: Tx, id: string, email: Email): Promise<boolean> {
  const saved = await tx
    .update(sends)
    .set({ email })
    .where(and(eq(sends.id, id), isNull(sends.email), isNull(sends.copyIngestedAt)))
    .returning({ id: sends.id });
  return saved.length > 0;
}

/**
 * Records that the Sent copies of these sends are ingested: they are emails now, and the provisional emails are deleted. A
 * file that now belongs to the email no longer belongs to the send.
 */
export async function markCopiesIngested(
  writes: Writer,
  copies: { id: string; storageKey: string }[],
  now: Date,
): Promise<void> {
  if (copies.length === 0) return;
  const [ids, keys] = [copies.map(({ id }) => id), copies.map(({ storageKey }) => storageKey)];
  await writes.execute(
    sql`
    update sends set copy_ingested_at = ${now.toISOString()}::timestamptz, email = null,
      storage_key = case when ${anyOf(sends.storageKey, keys)} then null else storage_key end
    where ${anyOf(sends.id, ids)}`,
    { table: sends },
  );
}

/** Storage keys of a send's files once its Sent copy has been ingested; undefined before. */
export async function filesOfIngested(db: Queryable, accountId: string, id: string): Promise<string[] | undefined> {
  const [row] = await db
    .select({ input: sends.inputKey, copy: sends.storageKey })
    .from(sends)
    .where(and(eq(sends.id, id), eq(sends.accountId, accountId), isNotNull(sends.copyIngestedAt)));
  return row && [row.input, row.copy].filter((key) => key !== null);
}

const cleared = statement('clear_provisional', (id: string, finishes: string | undefined) => {
  const clears = sql`update sends set email = null, storage_key = null, input_key = null where id = ${id}`;
  return finishes === undefined ? clears : sql`with cleared as (${clears}) select ${notification(finishes)}`;
});

/**
 * Clears the names of a send's files and its provisional email: the Sent copy is ingested and the files are deleted.
 * `finishes`: the workflow that this step finishes.
 */
export async function clearProvisional(db: Queryable, id: string, finishes?: string): Promise<void> {
  await db.execute(cleared(id, finishes));
}

/** Whether the Sent copy of a send has been ingested; it may have been deleted since. */
export async function isCopyIngested(db: Queryable, id: string): Promise<boolean> {
  const rows = await db
    .select({ id: sends.id })
    .from(sends)
    .where(and(eq(sends.id, id), isNotNull(sends.copyIngestedAt)));
  return rows.length > 0;
}
