import type { EventType } from '../contract/events.ts';
import type { Tx } from '../db/driver/client.ts';
import { toEmail } from '../db/queries/mail/email-object.ts';
import { finishRun, type RunRef } from '../db/coordination/finished-runs.ts';
import type { Lease } from '../db/coordination/lease.ts';
import { type NewEvent, takeSequence, writeEvents } from '../db/outbox.ts';
import { Writes } from '../db/driver/writes.ts';
import { newId } from '../new-id.ts';
import { emailsEnteredDrafts, emailsLeftDrafts } from '../outgoing/draft-state.ts';
import { addContacts, contactsIn, contactsOf, refreshContacts } from './contacts.ts';
import { loadSyncSettings } from './settings.ts';
import {
  type LocatedEmail,
  locateEmails,
  type MailboxState,
  refreshEmails,
  saveMailboxStates,
  saveReportedFolders,
} from './store/email-states.ts';
import { loadEmailRows, readWholeEmail, wholeEmails } from './store/emails.ts';
import { type Transition, transition } from './email-transition.ts';

/** Where emails are, by their ids. */
type EmailsById = ReadonlyMap<string, LocatedEmail>;

/** Emails whose bodies are in memory at one time. */
const BODIES_AT_ONCE = 100;

/**
 * Runs a change of stored emails and stores its consequences: compares their locations and state before and after, updates
 * their draft and missing state, and records their events (none when `quiet`, as for an import). A change that has no
 * event now, as while an email is missing, is part of the next one. All of it is one transaction, so the caller bounds the
 * number of emails: 1,000, or 500 where each has an event.
 */
export async function changeEmails(
  tx: Tx,
  { emailIds, ...context }: ChangeContext & { emailIds: string[] },
  change: (before: EmailsById) => Promise<void>,
): Promise<void> {
  await saveEmailChanges(tx, context, await comparedWith(tx, emailIds, change));
}

/**
 * Runs a change whose effect on emails is known beforehand, and stores its consequences; statements that can be deferred
 * go to `writes`, which also runs the change.
 */
export async function changeKnownEmails(
  tx: Tx,
  context: ChangeContext,
  { before, after, writes }: { before: EmailsById; after: EmailsById; writes: Writes },
): Promise<void> {
  await saveEmailChanges(tx, context, compare(before, after), writes);
}

interface ChangeContext {
  lease: Lease;
  now: Date;
  quiet?: boolean;
  /** the run that this completes */
  finishes?: RunRef | undefined;
}

async function saveEmailChanges(
  tx: Tx,
  { lease, now, quiet = false, finishes }: ChangeContext,
  changes: EmailChange[],
  writes = new Writes(),
): Promise<void> {
  await saveChanges(tx, lease.accountId, changes, now);
  if (!quiet) await recordChanges(tx, lease.accountId, { changes, now, writes });
  if (finishes) finishRun(writes, finishes);
  await writes.flush(tx);
  if (!quiet) await keepReported(tx, changes);
}

/**
 * Runs a change without an event: the next event of each email includes it. A move starts this way; its end has the event.
 */
export async function changeUnreported(tx: Tx, emailIds: string[], change: () => Promise<void>): Promise<void> {
  const changes = await comparedWith(tx, emailIds, change);
  await keepReported(
    tx,
    changes.map((each) => ({ ...each, events: [] })),
  );
}

/** Runs a change of stored emails and compares them before and after it. */
async function comparedWith(
  tx: Tx,
  emailIds: string[],
  change: (before: EmailsById) => Promise<void>,
): Promise<EmailChange[]> {
  const ids = [...new Set(emailIds)];
  const before = await locateEmails(tx, ids);
  await change(before);
  return compare(before, await refreshEmails(tx, ids));
}

function compare(before: EmailsById, after: EmailsById): EmailChange[] {
  return [...after.values()].flatMap((email): EmailChange[] => {
    const earlier = before.get(email.id);
    if (!earlier) return [];
    return [{ before: earlier, after: email, ...transition({ ...earlier, shown: earlier.reported }, email) }];
  });
}

/** Stores the folders that the last events of emails name, where readers now see others. */
async function keepReported(tx: Tx, changes: EmailChange[]): Promise<void> {
  const reported = changes.flatMap(({ before, after, events }) => {
    const isReported = events.length > 0 || before.reported.join() === after.shown.join();
    const folders = isReported ? null : before.reported;
    return after.reportedFolders?.join() === folders?.join() ? [] : [{ id: after.id, folders }];
  });
  await saveReportedFolders(tx, reported);
}

interface EmailChange extends Transition {
  before: LocatedEmail;
  after: LocatedEmail;
}

/** Stores the consequences of where the emails are now. */
async function saveChanges(tx: Tx, accountId: string, changes: EmailChange[], now: Date): Promise<void> {
  const states = changes.map((each) => ({ ...each, state: mailboxStateOf(each, now) }));
  const entered = states.filter(({ after, isDraft }) => isDraft && !after.isDraft);
  const left = changes.filter(({ after, isDraft }) => !isDraft && after.isDraft);
  await saveMailboxStates(
    tx,
    states.filter(({ after, state }) => differs(after, state)).map(({ state }) => state),
  );
  const newDrafts = entered.map(({ state }) => ({ draftId: state.draftId as string, emailId: state.id }));
  await emailsEnteredDrafts(tx, newDrafts, now);
  for (const sent of [true, false]) {
    const ended = left.filter(({ events }) => events.includes('email.new') === sent);
    await emailsLeftDrafts(
      tx,
      ended.flatMap(({ after }) => after.draftId ?? []),
      { sent },
    );
  }
  await removeContactsOf(
    tx,
    entered.map(({ after }) => after.id),
  );
  await addContactsOf(
    tx,
    accountId,
    left.map(({ after }) => after.id),
  );
}

function mailboxStateOf({ after, isDraft }: EmailChange, now: Date): MailboxState {
  const { id } = after;
  const missingSince = after.missing ? (after.leftAt ?? after.missingSince ?? now) : null;
  const draftId = isDraft === after.isDraft ? after.draftId : isDraft ? newId('draft') : null;
  return { id, isDraft, draftId, missingSince };
}

function differs(stored: MailboxState, state: MailboxState): boolean {
  return stored.isDraft !== state.isDraft || stored.missingSince?.getTime() !== state.missingSince?.getTime();
}

/** The people of a draft are not contacts: those of an email that became a draft again are removed. */
async function removeContactsOf(tx: Tx, emailIds: string[]): Promise<void> {
  if (emailIds.length === 0) return;
  for (const [account, addresses] of await contactsIn(tx, emailIds)) await refreshContacts(tx, account, addresses);
}

/** Adds the people of an email as contacts once it has left Drafts. */
async function addContactsOf(tx: Tx, accountId: string, emailIds: string[]): Promise<void> {
  if (emailIds.length === 0) return;
  const own = (await loadSyncSettings(tx, accountId))?.ownAddresses ?? [];
  const rows = (await loadEmailRows(tx, emailIds)).filter((row) => !row.bounce);
  await addContacts(
    tx,
    accountId,
    rows.map((row) => {
      const people = { from: row.fromAttendee, to: row.toAttendees, cc: row.ccAttendees, bcc: row.bccAttendees };
      return { date: row.date, contacts: contactsOf(own, people) };
    }),
  );
}

/** Defers saving the events of the last emails to `writes`, and runs it for the emails before them. */
async function recordChanges(
  tx: Tx,
  accountId: string,
  { changes, now, writes }: { changes: EmailChange[]; now: Date; writes: Writes },
): Promise<void> {
  const reported = changes.filter(({ events }) => events.length > 0);
  for (let start = 0; start < reported.length; start += BODIES_AT_ONCE) {
    if (start > 0) await writes.flush(tx);
    const part = reported.slice(start, start + BODIES_AT_ONCE);
    const subjects = part.map(({ before, after, events }) => ({ ...after, types: events, draftId: before.draftId }));
    await recordEventsOf(tx, accountId, { subjects, now, writes });
  }
}

/** Records that emails are deleted, before their rows are. The caller bounds their number. */
export async function recordDeletions(tx: Tx, accountId: string, deleted: LocatedEmail[], now: Date): Promise<void> {
  if (deleted.length === 0) return;
  const subjects = deleted.map((email) => ({
    ...email,
    types: [email.isDraft ? ('email.draft.delete' as const) : ('email.delete' as const)],
  }));
  const writes = new Writes();
  await recordEventsOf(tx, accountId, { subjects, now, writes });
  await writes.flush(tx);
}

/** Records that an email has the text and files that it lacked. Drafts, and emails in no folder, have no such event. */
export async function recordCompletion(tx: Tx, accountId: string, emailId: string, now: Date): Promise<void> {
  const email = (await locateEmails(tx, [emailId])).get(emailId);
  if (!email || email.isDraft || email.shown.length === 0) return;
  const writes = new Writes();
  await recordEventsOf(tx, accountId, { subjects: [{ ...email, types: ['email.update'] }], now, writes });
  await writes.flush(tx);
}

interface EventSubject extends Pick<LocatedEmail, 'id' | 'isUnread' | 'flags' | 'shown' | 'draftId'> {
  types: EventType[];
}

/** `draftId` is shown for emails that are no longer drafts, in events about the draft. */
async function recordEventsOf(
  tx: Tx,
  accountId: string,
  { subjects, now, writes }: { subjects: EventSubject[]; now: Date; writes: Writes },
): Promise<void> {
  const types = subjects.flatMap((subject) => subject.types);
  const ids = subjects.map(({ id }) => id);
  const sequence = await takeSequence(tx, accountId, types, wholeEmails(ids));
  const emails = new Map(sequence.read.map(readWholeEmail).map((each) => [each.row.id, each]));
  const events = subjects.flatMap(({ id, isUnread, flags, shown, draftId, types: ofEmail }) => {
    const stored = emails.get(id);
    if (!stored) throw new Error(`no email ${id}`);
    return ofEmail.map((type): NewEvent => {
      const aboutDraft = type.startsWith('email.draft.');
      const row = { ...stored.row, isUnread, flags, ...(aboutDraft ? { draftId: stored.row.draftId ?? draftId } : {}) };
      const email = toEmail(row, stored.contents, shown, aboutDraft ? 'Draft' : 'Email');
      return { type, objectId: id, data: { email }, createdAt: now };
    });
  });
  await writeEvents(sequence, events, writes);
}
