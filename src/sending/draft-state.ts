import { and, eq, sql } from 'drizzle-orm';
import type { Attendee } from '../contract/email.ts';
import type { SendInput } from '../contract/sending.ts';
import type { Queryable, Tx } from '../db/client.ts';
import { anyOf } from '../db/any-of.ts';
import { drafts, emails } from '../db/schema.ts';

/*
 * state       what it means                              next
 * saving      asked for; it may lie in Drafts already    active (it was taken in), failed
 * active      stands for the email in Drafts             superseded, sent, deleted
 * superseded  another `drf_…` id took its place          the end
 * sent        it was sent                                the end
 * deleted     it left Drafts                             the end
 * failed      it was not saved, the caller knows         saving (the caller tries again, same id)
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
}

/** What is known when the caller asks for a draft to be saved. */
export type NewDraft = Pick<DraftRow, 'id' | 'accountId' | 'inputKey' | 'metadata' | 'trackingId' | 'tracking'>;

/** Undefined when the account has no such draft. */
export async function loadDraft(db: Queryable, accountId: string, id: string): Promise<DraftRow | undefined> {
  const [row] = await db
    .select()
    .from(drafts)
    .where(and(eq(drafts.id, id), eq(drafts.accountId, accountId)));
  return row && { ...row, state: row.state as DraftState };
}

/** The draft that a `drf_…` or an `email_…` id stands for, while it lies in Drafts. */
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

/** Notes a draft that is about to be saved; one that failed before begins anew. Answers how it stands. */
export async function recordDraft(db: Queryable, draft: NewDraft, now: Date): Promise<DraftRow> {
  await db
    .insert(drafts)
    .values({ ...draft, state: 'saving', createdAt: now })
    .onConflictDoUpdate({
      target: drafts.id,
      set: { state: 'saving', inputKey: draft.inputKey },
      setWhere: eq(drafts.state, 'failed'),
    });
  return (await loadDraft(db, draft.accountId, draft.id)) as DraftRow;
}

/** Holders that have not ended after so long died with their process. */
const LONGEST_RESERVATION = sql`interval '15 minutes'`;

/** Whether a save or a send that is under way has reserved the row of `drafts`. */
const RESERVED = sql`(held_by is not null and (
  exists (select from drafts h where h.id = drafts.held_by and h.state = 'saving'
    and h.created_at > now() - ${LONGEST_RESERVATION})
  or exists (select from sends h where h.id = drafts.held_by and h.state in ('queued', 'submitting')
    and h.updated_at > now() - ${LONGEST_RESERVATION})))`;

/** Whether a save or a send of the draft is under way. */
export async function isReserved(db: Queryable, { id }: { id: string }): Promise<boolean> {
  const { rows } = await db.execute(sql`select from drafts where id = ${id} and ${RESERVED}`);
  return rows.length > 0;
}

/**
 * Reserves a draft for the save or the send `by`, which is the only one that may take its place. Answers who has it
 * then: `by`, or another; undefined when the draft is not there (any more).
 */
export async function reserveDraft(tx: Tx, id: string, by: string): Promise<string | undefined> {
  // A statement that waits for a lock sees the other tables as they were before it: whoever holds it would be missed.
  await tx.execute(sql`select from drafts where id = ${id} for update`);
  await tx.execute(sql`update drafts set held_by = ${by} where id = ${id} and state = 'active' and not ${RESERVED}`);
  const [row] = await tx
    .select({ heldBy: drafts.heldBy })
    .from(drafts)
    .where(and(eq(drafts.id, id), eq(drafts.state, 'active')));
  return row?.heldBy ?? undefined;
}

/** Gives a draft free that `by` had reserved. */
export async function releaseReservation(db: Queryable, by: string): Promise<void> {
  await db.update(drafts).set({ heldBy: null }).where(eq(drafts.heldBy, by));
}

/** Gives a draft that is being saved its Message-ID, unless it has one: the one that counts. */
export async function assignMessageId(db: Queryable, id: string, messageId: string): Promise<string> {
  const [row] = await db
    .update(drafts)
    .set({ messageId: sql`coalesce(${drafts.messageId}, ${messageId})` })
    .where(eq(drafts.id, id))
    .returning({ messageId: drafts.messageId });
  return row?.messageId ?? messageId;
}

/** Changes a draft's state, if it is in one of the states `from`. */
export async function moveDraft(
  db: Queryable,
  id: string,
  from: DraftState[],
  to: DraftState,
  values: { supersededBy?: string } = {},
): Promise<void> {
  await db
    .update(drafts)
    .set({ state: to, heldBy: null, ...values })
    .where(and(eq(drafts.id, id), anyOf(drafts.state, from)));
}

/**
 * Makes drafts stand for the emails that are in Drafts now, as `active`. One that is being saved through the API has a
 * row already; others get theirs here.
 */
export async function activateDrafts(tx: Tx, active: { id: string; emailId: string }[], now: Date): Promise<void> {
  if (active.length === 0) return;
  const rows = active.map(({ id, emailId }) => ({ id, email_id: emailId }));
  await tx.execute(sql`
    insert into drafts (id, account_id, email_id, message_id, state, created_at)
    select r.id, e.account_id, e.id, e.message_id, 'active', ${now.toISOString()}::timestamptz
    from json_to_recordset(${JSON.stringify(rows)}::json) as r(id text, email_id text) join emails e on e.id = r.email_id
    on conflict (id) do update set email_id = excluded.email_id, state = 'active'
      where drafts.state in ('saving', 'failed', 'active')`);
}

/** Ends drafts whose emails left Drafts; those that ended before keep their state. `sent`: the email is in Sent now. */
export async function emailLeftDrafts(tx: Tx, draftIds: string[], { sent }: { sent: boolean }): Promise<void> {
  if (draftIds.length === 0) return;
  await tx
    .update(drafts)
    .set({
      emailId: null,
      state: sql`case when ${drafts.state} = 'active' then ${sent ? 'sent' : 'deleted'} else ${drafts.state} end`,
    })
    .where(anyOf(drafts.id, draftIds));
}

/** Ends the drafts that stood for emails which are deleted. */
export async function draftEmailsDeleted(tx: Tx, emailIds: string[]): Promise<void> {
  await tx
    .update(drafts)
    .set({ state: 'deleted' })
    .where(and(anyOf(drafts.emailId, emailIds), eq(drafts.state, 'active')));
}

/** What the draft was saved from is not needed any more. */
export async function dropInput(db: Queryable, id: string): Promise<void> {
  await db.update(drafts).set({ inputKey: null }).where(eq(drafts.id, id));
}

/** Drafts with these Message-IDs that are being saved, or were given up, though they may lie in Drafts after all. */
export async function awaitedDrafts(
  tx: Queryable,
  accountId: string,
  messageIds: string[],
): Promise<{ id: string; messageId: string; trackingId: string | null }[]> {
  if (messageIds.length === 0) return [];
  const rows = await tx
    .select({ id: drafts.id, messageId: drafts.messageId, trackingId: drafts.trackingId })
    .from(drafts)
    .where(
      and(
        eq(drafts.accountId, accountId),
        anyOf(drafts.messageId, messageIds),
        anyOf(drafts.state, ['saving', 'failed']),
      ),
    );
  return rows.map(({ messageId, ...rest }) => ({ ...rest, messageId: messageId as string }));
}

/** Where the raw message of an email is stored, and its Bcc; undefined when the account has no such email. */
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
