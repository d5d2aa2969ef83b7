import type { Tx } from '../db/client.ts';
import { toEmail } from '../db/email-object.ts';
import type { Lease } from '../db/lease.ts';
import { type NewEvent, recordEvents } from '../db/outbox.ts';
import { newId } from '../new-id.ts';
import { emailsEnteredDrafts, emailsLeftDrafts } from '../sending/draft-state.ts';
import { addContacts, contactsIn, contactsOf, refreshContacts } from './contacts.ts';
import { loadSyncSettings } from './settings.ts';
import { loadContents, loadStoredEmails, type StoredEmail, updateEmail } from './store/emails.ts';
import { type EmailState, transition } from './transition.ts';

/**
 * Runs a change of stored emails and tells what it means: compares how they lay and looked before with how they do
 * after, keeps their draft and missing state, and records their events (none when `quiet`, as an import is).
 */
export async function changeEmails(
  tx: Tx,
  lease: Lease,
  emailIds: string[],
  now: Date,
  change: () => Promise<void>,
  { quiet = false } = {},
): Promise<void> {
  const ids = [...new Set(emailIds)];
  const before = await loadStoredEmails(tx, ids);
  await change();
  if (ids.length === 0) return;
  const after = await loadStoredEmails(tx, ids);
  const told: { email: StoredEmail; types: NewEvent['type'][]; draftId: string | null }[] = [];
  for (const [id, email] of after) {
    const earlier = before.get(id);
    if (!earlier) continue;
    const { isDraft, events } = transition(stateOf(earlier), stateOf(email));
    const draftId = earlier.row.draftId;
    await keepState(tx, email, isDraft, events.includes('email.new'), now);
    if (events.length > 0) told.push({ email, types: events, draftId });
  }
  if (!quiet) await recordEvents(tx, lease.accountId, await eventsOf(tx, told, now));
}

/** Events of emails that are gone for good; the rows are still there. */
export async function deletionEvents(tx: Tx, deleted: StoredEmail[], now: Date): Promise<NewEvent[]> {
  return eventsOf(
    tx,
    deleted.map((email) => ({
      email,
      types: [email.row.isDraft ? 'email.draft.delete' : 'email.delete'],
      draftId: email.row.draftId,
    })),
    now,
  );
}

function stateOf({ row, shown, roles, missing }: StoredEmail): EmailState {
  return { missing, shown, roles, isUnread: row.isUnread, isDraft: row.isDraft };
}

/** Stores what follows from where the email lies now; changes `email.row` likewise. */
async function keepState(tx: Tx, email: StoredEmail, isDraft: boolean, sent: boolean, now: Date): Promise<void> {
  const { row } = email;
  const missingSince = email.missing ? (email.leftAt ?? row.missingSince ?? now) : null;
  if (isDraft === row.isDraft && missingSince?.getTime() === row.missingSince?.getTime()) return;
  const values: Partial<typeof row> = { missingSince };
  if (isDraft && !row.isDraft) {
    Object.assign(values, { isDraft, draftId: newId('draft') });
    const { id: emailId, accountId, messageId } = row;
    await emailsEnteredDrafts(tx, [{ draftId: values.draftId as string, accountId, emailId, messageId }], now);
  } else if (!isDraft && row.isDraft) {
    Object.assign(values, { isDraft, draftId: null });
    if (row.draftId) await emailsLeftDrafts(tx, [row.draftId], { sent });
  }
  const wasDraft = row.isDraft;
  await updateEmail(tx, row.id, values);
  Object.assign(row, values);
  if (isDraft !== wasDraft) await keepContacts(tx, row);
}

/** Drafts make nobody a contact: the people of one count once it has left Drafts, and no longer when it is back. */
async function keepContacts(tx: Tx, row: StoredEmail['row']): Promise<void> {
  const { id, accountId, date } = row;
  if (row.isDraft) {
    for (const [account, addresses] of await contactsIn(tx, [id])) await refreshContacts(tx, account, addresses);
  } else if (!row.bounce) {
    const people = { from: row.fromAttendee, to: row.toAttendees, cc: row.ccAttendees, bcc: row.bccAttendees };
    const own = (await loadSyncSettings(tx, accountId))?.ownAddresses ?? [];
    await addContacts(tx, accountId, [{ date, contacts: contactsOf(own, people) }]);
  }
}

async function eventsOf(
  tx: Tx,
  told: { email: StoredEmail; types: NewEvent['type'][]; draftId: string | null }[],
  now: Date,
): Promise<NewEvent[]> {
  const contents = await loadContents(
    tx,
    told.map(({ email }) => email.row.id),
  );
  return told.flatMap(({ email, types, draftId }) =>
    types.map((type) => {
      const aboutDraft = type.startsWith('email.draft.');
      const row = aboutDraft ? { ...email.row, draftId: email.row.draftId ?? draftId } : email.row;
      const object = aboutDraft ? 'Draft' : 'Email';
      return {
        type,
        objectId: row.id,
        data: { email: toEmail(row, contents.get(row.id) ?? null, email.shown, object) },
        createdAt: now,
      };
    }),
  );
}
