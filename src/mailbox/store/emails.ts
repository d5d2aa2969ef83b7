import { and, eq, lt, type SQL, sql } from 'drizzle-orm';
import type { Queryable, Tx } from '../../db/driver/client.ts';
import type { EmailRow } from '../../db/queries/mail/email-object.ts';
import { insertRows } from '../../db/driver/insert-rows.ts';
import { threadNow } from '../../db/queries/mail/merging-threads.ts';
import { fromRow, type NamedRow } from '../../db/driver/rows.ts';
import { anyOf } from '../../db/driver/any-of.ts';
import { attachments, emailContents, emails, emailSearch } from '../../db/schema/index.ts';
import { Writes } from '../../db/driver/writes.ts';
import { draftsDeletedWithEmails, emailsEnteredDrafts } from '../../outgoing/draft-state.ts';
import { linkEarlierBounces, unlinkedBounces } from '../bounces.ts';
import { contactsIn, type Person, refreshContacts, renamedContacts, writeContacts } from '../contacts.ts';
import { deleteLocationsOf } from './locations.ts';

export type NewEmailRow = typeof emails.$inferInsert;

/** All rows of one email that is ingested. */
export interface NewEmailRows {
  email: NewEmailRow;
  contents: typeof emailContents.$inferInsert & Pick<typeof emailContents.$inferSelect, 'bodyNew' | 'snippet' | 'head'>;
  search: typeof emailSearch.$inferInsert;
  attachments: (typeof attachments.$inferInsert)[];
  /** see src/mailbox/contacts.ts */
  contacts: Person[];
}

/** The rows of these emails. */
export async function loadEmailRows(tx: Queryable, ids: string[]): Promise<(typeof emails.$inferSelect)[]> {
  return ids.length === 0 ? [] : tx.select().from(emails).where(anyOf(emails.id, ids));
}

/** An email's row with its body, headers and attachments. */
export interface WholeEmail {
  /** with the id of its thread now */
  row: typeof emails.$inferSelect;
  /** null: the row is left of an email whose contents are gone */
  contents: typeof emailContents.$inferSelect | null;
}

/**
 * A query of these emails as JSON, each of which `readWholeEmail` reads. The caller bounds their number: a body has 30 KB, or
 * megabytes.
 */
export function wholeEmails(ids: string[]): SQL {
  return sql`
    select json_build_object('row', e, 'contents', c, 'thread', ${sql.raw(threadNow('e.thread_id'))})
    from emails e left join email_contents c on c.email_id = e.id where e.id = any(${sql.param(ids)}::text[])`;
}

/** A value of wholeEmails. */
export function readWholeEmail(value: unknown): WholeEmail {
  const { row, contents, thread } = value as { row: NamedRow; contents: NamedRow | null; thread: string };
  return { row: { ...fromRow(emails, row), threadId: thread }, contents: contents && fromRow(emailContents, contents) };
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

/** Stores the rows that depend on emails once theirs exist; `flushed`: the values of the flush that has saved them. */
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

/** The row as a query returns it. */
export function emailRowOf(email: NewEmailRow): EmailRow & { isDraft: boolean } {
  return {
    ...email,
    messageId: email.messageId ?? null,
    isDraft: email.isDraft ?? false,
    flags: email.flags ?? null,
    draftId: email.draftId ?? null,
    origin: email.origin ?? 'external',
    isEcho: email.isEcho ?? false,
    sentBy: email.sentBy ?? null,
    trackingId: email.trackingId ?? null,
    ...readingsOf(email),
    isComplete: email.isComplete ?? true,
  };
}

function readingsOf({ bounce, complaint, autoReply, calendar, list, authentication }: NewEmailRow) {
  return {
    bounce: bounce ?? null,
    complaint: complaint ?? null,
    autoReply: autoReply ?? null,
    calendar: calendar ?? null,
    list: list ?? null,
    authentication: authentication ?? null,
  };
}

/** Emails of one verification that are corrected; the others follow in the next one. */
const WRONG_AT_ONCE = 10_000;

/** Emails that do not have the flags of their locations. */
export async function findWrongFlags(db: Queryable, accountId: string): Promise<string[]> {
  const { rows } = await db.execute<{ id: string }>(sql`
    select e.id from emails e
    join (
      select email_id, bool_or(seen) as seen, bool_or(flags is null) as unread_flags, min(flags) as least, max(flags) as most
      from locations
      where account_id = ${accountId} and email_id is not null and vanished_at is null group by email_id
    ) l on l.email_id = e.id
    where e.account_id = ${accountId} and (e.is_unread = l.seen or e.flags is distinct from case
      when l.unread_flags then null
      when l.least = l.most then l.least
      else array(
        select distinct f collate "C" from locations p, unnest(p.flags) f
        where p.email_id = e.id and p.vanished_at is null order by 1)
      end)
    limit ${WRONG_AT_ONCE}`);
  return rows.map(({ id }) => id);
}

const isUnlocated = (accountId: string) => sql`
  account_id = ${accountId} and missing_since is null and not exists (select from locations l where l.email_id = emails.id)`;

/** Emails that the store has in no folder, though they have left none. */
export async function findUnlocated(db: Queryable, accountId: string): Promise<string[]> {
  const { rows } = await db.execute<{ id: string }>(
    sql`select id from emails where ${isUnlocated(accountId)} limit ${WRONG_AT_ONCE}`,
  );
  return rows.map(({ id }) => id);
}

/** Has the sync passes that begin after `since` decide about the emails that the store has in no folder. */
export async function missUnlocated(tx: Tx, accountId: string, since: Date): Promise<void> {
  const at = sql`${since.toISOString()}::timestamptz`;
  await tx.execute(sql`update emails set missing_since = ${at} where ${isUnlocated(accountId)}`);
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

/** Removes emails with all their rows; returns the storage keys that no row names now. */
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
