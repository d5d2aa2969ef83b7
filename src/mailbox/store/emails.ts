import { and, eq, inArray, lt, sql } from 'drizzle-orm';
import type { FolderRole } from '../../contract/folder.ts';
import type { Queryable, Tx } from '../../db/client.ts';
import { type EmailContentsRow, type EmailRow, shownFolders } from '../../db/email-object.ts';
import { insertRows } from '../../db/insert-rows.ts';
import { isGoingAway } from '../../db/pending-removal.ts';
import { attachments, emailContents, emails, emailSearch, folders, locations } from '../../db/schema.ts';
import { gatherSearchEntries } from '../../db/search-index.ts';
import { draftsDeletedWithEmails, emailsEnteredDrafts } from '../../sending/draft-state.ts';
import { linkEarlierBounces } from '../bounces.ts';
import { addContacts, contactsIn, type Person, refreshContacts } from '../contacts.ts';

export type NewEmailRow = typeof emails.$inferInsert;
export type NewLocationRow = typeof locations.$inferInsert;

/** All rows of one email that is taken in. */
export interface NewEmailRows {
  email: NewEmailRow;
  contents: typeof emailContents.$inferInsert;
  search: typeof emailSearch.$inferInsert;
  attachments: (typeof attachments.$inferInsert)[];
  /** see src/mailbox/contacts.ts */
  contacts: Person[];
}

/** An email's row with where it lies. */
export interface StoredEmail {
  row: typeof emails.$inferSelect;
  shown: string[];
  /** roles of the folders that hold it and are not on their way out */
  roles: FolderRole[];
  /** it has left a folder and may be about to turn up in another: where it lies is not known yet */
  missing: boolean;
  /** no folder holds it */
  gone: boolean;
  /** when it left a folder last */
  leftAt: Date | null;
}

/** The emails of these ids with where they lie. */
export async function loadStoredEmails(tx: Queryable, ids: string[]): Promise<Map<string, StoredEmail>> {
  if (ids.length === 0) return new Map();
  const rows = await tx.select().from(emails).where(inArray(emails.id, ids));
  const places = await tx
    .select({
      emailId: locations.emailId,
      folderId: locations.folderId,
      role: folders.role,
      deleted: sql<boolean>`${sql.raw(isGoingAway('locations'))}`,
      vanishedAt: locations.vanishedAt,
    })
    .from(locations)
    .innerJoin(folders, eq(folders.id, locations.folderId))
    .where(inArray(locations.emailId, ids));
  const byEmail = new Map<string, typeof places>(ids.map((id) => [id, []]));
  for (const place of places) byEmail.get(place.emailId as string)?.push(place);
  return new Map(
    rows.map((row) => {
      const own = byEmail.get(row.id) ?? [];
      const live = own.filter((place) => !place.vanishedAt);
      const staying = live.some((place) => !place.deleted) ? live.filter((place) => !place.deleted) : live;
      const stored: StoredEmail = {
        row,
        shown: shownFolders(own),
        roles: staying.map((place) => place.role as FolderRole),
        missing: live.length < own.length || live.length === 0,
        gone: live.length === 0,
        leftAt: latest(own.flatMap((place) => place.vanishedAt ?? [])),
      };
      return [row.id, stored];
    }),
  );
}

function latest(dates: Date[]): Date | null {
  return dates.reduce<Date | null>((last, date) => (last && last > date ? last : date), null);
}

/** Body, headers and attachments of these emails. */
export async function loadContents(tx: Queryable, ids: string[]): Promise<Map<string, EmailContentsRow>> {
  if (ids.length === 0) return new Map();
  const rows = await tx.select().from(emailContents).where(inArray(emailContents.emailId, ids));
  return new Map(rows.map((row) => [row.emailId, row]));
}

/** Saves emails that are taken in. Their locations come by insertLocations. */
export async function insertEmails(tx: Tx, accountId: string, mails: NewEmailRows[], now: Date): Promise<void> {
  if (mails.length === 0) return;
  await gatherSearchEntries(tx);
  await insertRows(
    tx,
    emails,
    mails.map((mail) => mail.email),
  );
  await insertRows(
    tx,
    emailContents,
    mails.map((mail) => mail.contents),
  );
  await insertRows(
    tx,
    emailSearch,
    mails.map((mail) => mail.search),
  );
  await insertRows(
    tx,
    attachments,
    mails.flatMap((mail) => mail.attachments),
  );
  await emailsEnteredDrafts(
    tx,
    mails.flatMap(({ email: { id: emailId, draftId, messageId = null } }) =>
      draftId ? [{ draftId, accountId, emailId, messageId }] : [],
    ),
    now,
  );
  await addContacts(
    tx,
    accountId,
    mails.map((mail) => ({ date: mail.email.date, contacts: mail.contacts })),
  );
  await linkEarlierBounces(
    tx,
    accountId,
    mails.flatMap(({ email }) => (email.isDraft ? [] : (email.messageId ?? []))),
  );
}

/** The row as reads will give it back. */
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
  };
}

/** Emails that moved look as they do where they lie now: what was read on the way is read. */
export async function markMoved(tx: Tx, moved: { emailId: string; seen: boolean }[]): Promise<void> {
  for (const seen of [true, false]) {
    const ids = moved.filter((one) => one.seen === seen).map((one) => one.emailId);
    if (ids.length > 0) await tx.update(emails).set({ isUnread: !seen }).where(inArray(emails.id, ids));
  }
}

/** Changes columns of one email. */
export async function updateEmail(tx: Tx, id: string, values: Partial<NewEmailRow>): Promise<void> {
  await tx.update(emails).set(values).where(eq(emails.id, id));
}

/** Emails that had left a folder before `before` and have not turned up in another since: all was looked at by then. */
export async function findMissing(tx: Tx, accountId: string, before: Date): Promise<string[]> {
  const rows = await tx
    .select({ id: emails.id })
    .from(emails)
    .where(and(eq(emails.accountId, accountId), lt(emails.missingSince, before)))
    .limit(200);
  return rows.map((row) => row.id);
}

/** Removes emails with all that belongs to them; the storage keys that are now without an owner. */
export async function deleteEmails(tx: Tx, ids: string[]): Promise<string[]> {
  if (ids.length === 0) return [];
  const people = await contactsIn(tx, ids);
  const files = await tx
    .delete(attachments)
    .where(inArray(attachments.emailId, ids))
    .returning({ key: attachments.storageKey });
  await tx.delete(locations).where(inArray(locations.emailId, ids));
  await tx.delete(emailContents).where(inArray(emailContents.emailId, ids));
  await tx.delete(emailSearch).where(inArray(emailSearch.emailId, ids));
  await draftsDeletedWithEmails(tx, ids);
  const rows = await tx.delete(emails).where(inArray(emails.id, ids)).returning({ key: emails.storageKey });
  for (const [accountId, addresses] of people) await refreshContacts(tx, accountId, addresses);
  return [...files, ...rows].map((row) => row.key);
}
