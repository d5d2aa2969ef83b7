import { eq, sql } from 'drizzle-orm';
import { insertAttachments } from '../../db/queries/mail/attachments.ts';
import type { Queryable, Tx } from '../../db/driver/client.ts';
import { insertRows } from '../../db/driver/insert-rows.ts';
import { attachments, emailContents, emails, emailSearch, threadKeys } from '../../db/schema/index.ts';
import { GATHER_SEARCH_ENTRIES } from '../../db/coordination/search-index.ts';
import { linkEarlierBounces } from '../bounces.ts';
import { addContacts, contactsIn, refreshContacts } from '../contacts.ts';
import type { Difference, StoredRows } from './difference.ts';

/** All rows of an email; undefined when it was deleted. */
export async function loadRows(db: Queryable, emailId: string): Promise<StoredRows | undefined> {
  const [email] = await db.select().from(emails).where(eq(emails.id, emailId));
  const [contents] = await db.select().from(emailContents).where(eq(emailContents.emailId, emailId));
  const [search] = await db.select().from(emailSearch).where(eq(emailSearch.emailId, emailId));
  if (!email || !contents || !search) return undefined;
  return {
    ...{ email, contents, search },
    attachments: await db.select().from(attachments).where(eq(attachments.emailId, emailId)),
  };
}

/** All rows of an email, locked until the end of the transaction; undefined when it was deleted. */
export async function lockRows(tx: Tx, emailId: string): Promise<StoredRows | undefined> {
  await tx.execute(sql`select 1 from emails where id = ${emailId} for no key update`);
  return loadRows(tx, emailId);
}

/** Updates the columns that differ, and the rows that depend on them: contacts, links of bounces, keys of the thread. */
export async function saveDifference(tx: Tx, { email }: StoredRows, difference: Difference): Promise<void> {
  const { id, accountId, threadId } = email;
  const now = { ...email, ...difference.email };
  const isPeopled = !email.isDraft && (has(difference.email) || has(difference.search));
  const before = isPeopled ? ((await contactsIn(tx, [id])).get(accountId) ?? []) : [];
  if (has(difference.search)) {
    await tx.execute(sql`select ${GATHER_SEARCH_ENTRIES}`);
    await tx.update(emailSearch).set(difference.search).where(eq(emailSearch.emailId, id));
  }
  if (has(difference.email)) await tx.update(emails).set(difference.email).where(eq(emails.id, id));
  if (has(difference.contents)) {
    await tx.update(emailContents).set(difference.contents).where(eq(emailContents.emailId, id));
  }
  if (difference.attachments) {
    await tx.delete(attachments).where(eq(attachments.emailId, id));
    await insertAttachments(tx, difference.attachments);
  }
  if (difference.email.date) {
    await tx.execute(
      sql`update locations set date = ${difference.email.date.toISOString()}::timestamptz where email_id = ${id}`,
    );
  }
  if (isPeopled) {
    await addContacts(tx, accountId, [{ date: now.date, contacts: difference.contacts }]);
    await refreshContacts(tx, accountId, before);
  }
  const keys = difference.threadKeys.map((key) => ({ accountId, key, threadId }));
  await insertRows(tx, threadKeys, keys, sql`on conflict (account_id, key) do nothing`);
  const { messageId } = difference.email;
  if (messageId && !email.isDraft) await linkEarlierBounces(tx, accountId, [messageId]);
}

const has = (columns: object) => Object.keys(columns).length > 0;
