import { prepared } from '../../db/prepared.ts';
import { and, eq, lt, sql } from 'drizzle-orm';
import type { FolderRole } from '../../contract/folder.ts';
import type { Queryable, Tx } from '../../db/client.ts';
import { type EmailContentsRow, type EmailRow, shownFolders } from '../../db/email-object.ts';
import { insertRows } from '../../db/insert-rows.ts';
import { isGoingAway } from '../../db/pending-removal.ts';
import { anyOf } from '../../db/any-of.ts';
import { attachments, emailContents, emails, emailSearch, folders, locations } from '../../db/schema.ts';
import { Writes } from '../../db/writes.ts';
import { draftsDeletedWithEmails, emailsEnteredDrafts } from '../../sending/draft-state.ts';
import { linkEarlierBounces, unlinkedBounces } from '../bounces.ts';
import { contactsIn, type Person, refreshContacts, renamedContacts, writeContacts } from '../contacts.ts';
import type { EmailState } from '../email-transition.ts';
import { deleteLocationsOf } from './locations.ts';

export type NewEmailRow = typeof emails.$inferInsert;
export type NewLocationRow = typeof locations.$inferInsert;

/** All rows of one email that is ingested. */
export interface NewEmailRows {
  email: NewEmailRow;
  contents: typeof emailContents.$inferInsert & Pick<typeof emailContents.$inferSelect, 'bodyNew' | 'head'>;
  search: typeof emailSearch.$inferInsert;
  attachments: (typeof attachments.$inferInsert)[];
  /** see src/mailbox/contacts.ts */
  contacts: Person[];
}

/** Where an email is and what of it changes. */
export interface LocatedEmail extends EmailState {
  id: string;
  draftId: string | null;
  missingSince: Date | null;
  /** no folder holds it */
  gone: boolean;
  /** when it left a folder last */
  leftAt: Date | null;
  /** `shown` as its last event says */
  reported: string[];
  /** the same as it is stored: null where readers see what the event says */
  reportedFolders: string[] | null;
}

/** An email's row with where it is. */
export interface StoredEmail extends LocatedEmail {
  row: typeof emails.$inferSelect;
}

/** Where the emails of these ids are. */
export async function locateEmails(tx: Queryable, ids: string[]): Promise<Map<string, LocatedEmail>> {
  if (ids.length === 0) return new Map();
  const { id, isUnread, isDraft, draftId, missingSince, reportedFolders } = emails;
  const rows = await tx
    .select({ id, isUnread, isDraft, draftId, missingSince, reportedFolders })
    .from(emails)
    .where(anyOf(emails.id, ids));
  const locationsOf = await loadLocationsOf(tx, ids);
  return new Map(rows.map((row) => [row.id, located(row, locationsOf.get(row.id) ?? [])]));
}

/** The emails of these ids with where they are. */
export async function loadStoredEmails(tx: Queryable, ids: string[]): Promise<Map<string, StoredEmail>> {
  const states = await locateEmails(tx, ids);
  const rows = await loadEmailRows(tx, ids);
  return new Map(
    rows.flatMap((row) => {
      const state = states.get(row.id);
      return state ? [[row.id, { ...state, row }]] : [];
    }),
  );
}

/** The rows of these emails. */
export async function loadEmailRows(tx: Queryable, ids: string[]): Promise<(typeof emails.$inferSelect)[]> {
  return ids.length === 0 ? [] : tx.select().from(emails).where(anyOf(emails.id, ids));
}

interface LocationOfStored {
  folderId: string;
  /** null: the folder was deleted */
  role: string | null;
  /** it is marked with \Deleted or pending removal */
  deleted: boolean;
  vanishedAt: Date | null;
}

async function loadLocationsOf(tx: Queryable, emailIds: string[]): Promise<Map<string, LocationOfStored[]>> {
  const rows = await tx
    .select({
      emailId: locations.emailId,
      folderId: locations.folderId,
      role: folders.role,
      deleted: sql<boolean>`${sql.raw(isGoingAway('locations'))}`,
      vanishedAt: locations.vanishedAt,
    })
    .from(locations)
    .leftJoin(folders, eq(folders.id, locations.folderId))
    .where(anyOf(locations.emailId, emailIds));
  const byEmail = new Map<string, LocationOfStored[]>();
  for (const { emailId, ...location } of rows) {
    const others = byEmail.get(emailId as string);
    if (others) others.push(location);
    else byEmail.set(emailId as string, [location]);
  }
  return byEmail;
}

type LocatedRow = Pick<LocatedEmail, 'id' | 'isUnread' | 'isDraft' | 'draftId' | 'missingSince' | 'reportedFolders'>;

function located(row: LocatedRow, all: LocationOfStored[]): LocatedEmail {
  const live = all.filter((location) => !location.vanishedAt);
  const stored = all.filter((location): location is LocationOfStored & { role: string } => location.role !== null);
  const staying = live.some((location) => !location.deleted) ? live.filter((location) => !location.deleted) : live;
  const shown = shownFolders(stored);
  return {
    ...row,
    shown,
    reported: row.reportedFolders ?? shown,
    inDeletedFolder: stored.length < all.length,
    roles: staying.map((location) => location.role as FolderRole),
    missing: live.length < all.length || live.length === 0,
    gone: live.length === 0,
    leftAt: latest(all.flatMap((location) => location.vanishedAt ?? [])),
  };
}

function latest(dates: Date[]): Date | null {
  return dates.reduce<Date | null>((last, date) => (last && last > date ? last : date), null);
}

/** Body, headers and attachments of these emails. The caller bounds their number: a body has 30 KB, or megabytes. */
export async function loadContents(tx: Queryable, ids: string[]): Promise<Map<string, EmailContentsRow>> {
  if (ids.length === 0) return new Map();
  const rows = await tx.select().from(emailContents).where(anyOf(emailContents.emailId, ids));
  return new Map(rows.map((row) => [row.emailId, row]));
}

/** What changes of an email when it comes to other folders, or leaves them. */
export type MailboxState = Pick<LocatedEmail, 'id' | 'isDraft' | 'draftId' | 'missingSince'>;

/** Stores these columns of emails, in one statement. */
export async function saveMailboxStates(tx: Tx, states: MailboxState[]): Promise<void> {
  if (states.length === 0) return;
  const rows = states.map(({ id, isDraft, draftId, missingSince }) => ({
    id,
    is_draft: isDraft,
    draft_id: draftId,
    missing_since: missingSince,
  }));
  await tx.execute(sql`
    update emails e set is_draft = r.is_draft, draft_id = r.draft_id, missing_since = r.missing_since
    from json_to_recordset(${JSON.stringify(rows)}::json)
      as r(id text, is_draft boolean, draft_id text, missing_since timestamptz)
    where e.id = r.id`);
}

/** Records which folders the last events of emails name; null: those that readers see. */
export async function saveReportedFolders(tx: Tx, reported: { id: string; folders: string[] | null }[]): Promise<void> {
  if (reported.length === 0) return;
  await tx.execute(sql`
    update emails e set reported_folders = r.folders
    from json_to_recordset(${JSON.stringify(reported)}::json) as r(id text, folders text[])
    where e.id = r.id`);
}

/** Saves emails that are ingested. Their locations come by insertLocations. */
export async function insertEmails(tx: Tx, accountId: string, mails: NewEmailRows[], now: Date): Promise<void> {
  const writes = new Writes();
  await writeEmails(writes, accountId, mails);
  await afterEmails(tx, accountId, { mails, flushed: await writes.flush(tx), now });
}

/** Leaves it to `writes` to save emails that are ingested; `afterEmails` follows. */
export async function writeEmails(writes: Writes, accountId: string, mails: NewEmailRows[]): Promise<void> {
  if (mails.length === 0) return;
  await insertRows(
    writes,
    emails,
    mails.map((mail) => mail.email),
  );
  await insertRows(
    writes,
    emailContents,
    mails.map((mail) => mail.contents),
  );
  await insertRows(
    writes,
    emailSearch,
    mails.map((mail) => mail.search),
  );
  await insertRows(
    writes,
    attachments,
    mails.flatMap((mail) => mail.attachments),
  );
  writeContacts(
    writes,
    accountId,
    mails.map((mail) => ({ date: mail.email.date, contacts: mail.contacts })),
  );
  writes.select('bounces', sql`(select json_agg(b) from (${unlinkedBounces(accountId, messageIdsOf(mails))}) b)`);
}

/** What follows from emails once their rows are there; `flushed`: the values of the flush that has saved them. */
export async function afterEmails(
  tx: Tx,
  accountId: string,
  { mails, flushed, now }: { mails: NewEmailRows[]; flushed: Record<string, unknown>; now: Date },
): Promise<void> {
  await emailsEnteredDrafts(
    tx,
    mails.flatMap(({ email: { id: emailId, draftId } }) => (draftId ? [{ draftId, emailId }] : [])),
    now,
  );
  await refreshContacts(tx, accountId, renamedContacts(flushed));
  // bounces among the emails themselves were not there yet
  if (flushed['bounces'] || mails.some(({ email }) => email.bounce)) {
    await linkEarlierBounces(tx, accountId, messageIdsOf(mails));
  }
}

function messageIdsOf(mails: NewEmailRows[]): string[] {
  return mails.flatMap(({ email }) => (email.isDraft ? [] : (email.messageId ?? [])));
}

/** The row as reads return it. */
export function emailRowOf(email: NewEmailRow): EmailRow & { isDraft: boolean } {
  return {
    ...email,
    messageId: email.messageId ?? null,
    isDraft: email.isDraft ?? false,
    draftId: email.draftId ?? null,
    origin: email.origin ?? 'external',
    isEcho: email.isEcho ?? false,
    sentBy: email.sentBy ?? null,
    trackingId: email.trackingId ?? null,
    bounce: email.bounce ?? null,
    complaint: email.complaint ?? null,
    autoReply: email.autoReply ?? null,
    calendar: email.calendar ?? null,
    isComplete: email.isComplete ?? true,
  };
}

/** Makes emails read that are read in one of the folders that hold them, and the others unread. */
export async function refreshUnread(tx: Tx, ids: string[]): Promise<void> {
  if (ids.length === 0) return;
  await tx.execute(
    prepared(sql`
    update emails e set is_unread = not l.seen
    from (
      select email_id, bool_or(seen) as seen from locations
      where ${anyOf(locations.emailId, ids)} and vanished_at is null group by email_id
    ) l
    where e.id = l.email_id and e.is_unread = l.seen`),
  );
}

/** Emails of one verification that are corrected; the others follow in the next one. */
const WRONG_AT_ONCE = 10_000;

/** Emails that are not read or unread as their locations say. */
export async function findWrongUnread(db: Queryable, accountId: string): Promise<string[]> {
  const { rows } = await db.execute<{ id: string }>(sql`
    select e.id from emails e
    join (
      select email_id, bool_or(seen) as seen from locations
      where account_id = ${accountId} and email_id is not null and vanished_at is null group by email_id
    ) l on l.email_id = e.id
    where e.account_id = ${accountId} and e.is_unread = l.seen
    limit ${WRONG_AT_ONCE}`);
  return rows.map(({ id }) => id);
}

/** Emails that one transaction decides about, since their bodies go into events. */
const MISSING_AT_ONCE = 200;

/** Emails that had left a folder before `before` and have not turned up in another since: all folders were checked then. */
export async function findMissing(tx: Tx, accountId: string, before: Date): Promise<string[]> {
  const rows = await tx
    .select({ id: emails.id })
    .from(emails)
    .where(and(eq(emails.accountId, accountId), lt(emails.missingSince, before)))
    .limit(MISSING_AT_ONCE);
  return rows.map((row) => row.id);
}

/** Removes emails with all that belongs to them; the storage keys that are now without an owner. */
export async function deleteEmails(tx: Tx, ids: string[]): Promise<string[]> {
  if (ids.length === 0) return [];
  const people = await contactsIn(tx, ids);
  const files = await tx
    .delete(attachments)
    .where(anyOf(attachments.emailId, ids))
    .returning({ key: attachments.storageKey });
  await deleteLocationsOf(tx, ids);
  await tx.delete(emailContents).where(anyOf(emailContents.emailId, ids));
  await tx.delete(emailSearch).where(anyOf(emailSearch.emailId, ids));
  await draftsDeletedWithEmails(tx, ids);
  const rows = await tx.delete(emails).where(anyOf(emails.id, ids)).returning({ key: emails.storageKey });
  for (const [accountId, addresses] of people) await refreshContacts(tx, accountId, addresses);
  return [...files, ...rows].map((row) => row.key);
}
