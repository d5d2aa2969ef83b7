import { and, desc, eq, getTableColumns, isNull, notExists, sql } from 'drizzle-orm';
import type { Attendee, Email, SentBy } from '../contract/email.ts';
import type { SendInput } from '../contract/sending.ts';
import type { Db, Queryable, Tx } from '../db/client.ts';
import { anyOf } from '../db/any-of.ts';
import { emails, type SendResult, sends } from '../db/schema.ts';

/*
 * state       what it means                                          next
 * queued      nothing has left yet                                   submitting, failed
 * submitting  committed before the first byte of the message leaves  sent, queued (it was refused), unknown
 * sent        the SMTP server took it                                the end
 * unknown     it may have been taken: never sent again               sent (its copy was found)
 * failed      it was not sent, the caller knows                      queued (the caller tries again, same id)
 */
export type SendState = 'queued' | 'submitting' | 'sent' | 'unknown' | 'failed';

/** A send as its activities need it. */
export interface SendRow {
  id: string;
  accountId: string;
  state: SendState;
  messageId: string | null;
  draftId: string | null;
  metadata: string | null;
  trackingId: string | null;
  tracking: SendInput['tracking_options'] | null;
  inputKey: string | null;
  storageKey: string | null;
  result: SendResult | null;
  /** an Email is shown until the Sent copy has synced */
  hasProvisional: boolean;
  sentBy: SentBy;
}

/** What is known when the caller asks for a send. */
export interface NewSend {
  id: string;
  accountId: string;
  draftId: string | null;
  apiKeyId: string;
  apiKeyName: string;
  metadata: string | null;
  trackingId: string | null;
  tracking: SendInput['tracking_options'] | null;
  inputKey: string | null;
}

/**
 * Notes a send that is about to be made, and answers how it stands: one that failed before begins anew, any other is
 * left as it is.
 */
export async function recordSend(db: Queryable, send: NewSend, now: Date): Promise<SendRow> {
  await db
    .insert(sends)
    .values({ ...send, createdAt: now, updatedAt: now })
    .onConflictDoUpdate({
      target: sends.id,
      set: { state: 'queued', inputKey: send.inputKey, updatedAt: now },
      setWhere: eq(sends.state, 'failed'),
    });
  return (await loadSend(db, send.accountId, send.id)) as SendRow;
}

/** Undefined when the account has no such send (any more). */
export async function loadSend(db: Queryable, accountId: string, id: string): Promise<SendRow | undefined> {
  const [row] = await db
    .select(COLUMNS)
    .from(sends)
    .where(and(eq(sends.id, id), eq(sends.accountId, accountId)));
  return row && toSendRow(row);
}

const { email, ...SMALL } = getTableColumns(sends);
/** Without the Email that stands in for the copy, which may be large. */
const COLUMNS = { ...SMALL, hasProvisional: sql<boolean>`${email} is not null` };

function toSendRow(row: Omit<typeof sends.$inferSelect, 'email'> & { hasProvisional: boolean }): SendRow {
  const { id, accountId, messageId, draftId, metadata, trackingId, tracking, inputKey, storageKey, result } = row;
  const sentBy = { api_key_id: row.apiKeyId, api_key_name: row.apiKeyName, metadata };
  const own = { id, accountId, messageId, draftId, metadata, trackingId, tracking, inputKey, storageKey, result };
  return { ...own, state: row.state as SendState, hasProvisional: row.hasProvisional, sentBy };
}

/** Notes the Message-ID of the composed message and where it lies; false when the send is not to be made any more. */
export async function saveComposed(
  db: Queryable,
  id: string,
  composed: { messageId: string; storageKey: string; result: SendResult },
): Promise<boolean> {
  const noted = await db
    .update(sends)
    .set(composed)
    .where(and(eq(sends.id, id), eq(sends.state, 'queued')))
    .returning({ id: sends.id });
  return noted.length > 0;
}

/** Moves a send from one of the states `from` to another; false when it is in none of them. */
export async function moveSend(
  db: Queryable,
  id: string,
  from: SendState[],
  to: SendState,
  values: { result?: SendResult } = {},
): Promise<boolean> {
  const moved = await db
    .update(sends)
    .set({ state: to, updatedAt: new Date(), ...values })
    .where(and(eq(sends.id, id), anyOf(sends.state, from)))
    .returning({ id: sends.id });
  return moved.length > 0;
}

/** Keeps what is shown until the Sent copy has synced; false when that has, or there is one already. */
export async function saveProvisional(tx: Tx, id: string, email: Email): Promise<boolean> {
  const kept = await tx
    .update(sends)
    .set({ email })
    .where(and(eq(sends.id, id), isNull(sends.email), notExists(tx.select().from(emails).where(eq(emails.id, id)))))
    .returning({ id: sends.id });
  return kept.length > 0;
}

/**
 * Where the Sent copy lies in the store, what stood in for it is not needed any more. Answers the keys of its files;
 * undefined when the copy is not there yet.
 */
export async function removeProvisional(db: Queryable, accountId: string, id: string): Promise<string[] | undefined> {
  const { rows } = await db.execute<{ input_key: string | null; storage_key: string | null }>(sql`
    update sends set email = null, storage_key = null, input_key = null
    from (select id, input_key, storage_key from sends where id = ${id} for update) old
    where sends.id = old.id and sends.account_id = ${accountId}
      and exists (select from emails where emails.id = ${id})
    returning old.input_key, old.storage_key`);
  return rows[0] && [rows[0].input_key, rows[0].storage_key].flatMap((key) => key ?? []);
}

/** A send that a mail in the mailbox may be a copy of. */
export interface SentMail {
  id: string;
  messageId: string;
  trackingId: string | null;
  sentBy: SentBy;
  bcc: Attendee[];
  /** its Sent copy has not been taken in */
  awaited: boolean;
  /** an Email is shown until then */
  hasProvisional: boolean;
}

/** Sends with these Message-IDs that left, or may have left. */
export async function findSends(tx: Queryable, accountId: string, messageIds: string[]): Promise<SentMail[]> {
  if (messageIds.length === 0) return [];
  const rows = await tx
    .select({ ...COLUMNS, takenInAs: emails.id })
    .from(sends)
    .leftJoin(emails, eq(emails.id, sends.id))
    .where(
      and(
        eq(sends.accountId, accountId),
        anyOf(sends.messageId, messageIds),
        anyOf(sends.state, ['submitting', 'sent', 'unknown']),
      ),
    )
    // of several sends of one draft the copy is that of the one that is known to have left
    .orderBy(sql`${sends.state} = 'sent' desc`, desc(sends.createdAt));
  return rows.map(({ takenInAs, ...row }) => {
    const { id, messageId, trackingId, sentBy, hasProvisional, result } = toSendRow(row);
    const bcc = result?.bcc ?? [];
    return { id, messageId: messageId as string, trackingId, sentBy, bcc, hasProvisional, awaited: takenInAs === null };
  });
}

/** Whether the Sent copy of a send has been taken in. */
export async function isCopyIngested(db: Db | Tx, id: string): Promise<boolean> {
  const rows = await db.select({ id: emails.id }).from(emails).where(eq(emails.id, id));
  return rows.length > 0;
}
