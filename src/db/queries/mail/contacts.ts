import { and, desc, eq, ilike, or, sql } from 'drizzle-orm';
import type { Contact } from '../../../contract/contact.ts';
import type { Queryable } from '../../driver/client.ts';
import { contacts } from '../../schema/index.ts';

/** The position of a contact in the list. */
export interface ContactPosition {
  date: Date;
  /** the contact's address */
  id: string;
}

/** A page of an account's contacts, the one with the latest mail first. `search` is a part of address or name. */
export async function listContacts(
  db: Queryable,
  accountId: string,
  query: { search: string | undefined; limit: number; position: ContactPosition | null },
): Promise<{ data: Contact[]; next: ContactPosition | null }> {
  const { search, limit, position } = query;
  const pattern = `%${(search ?? '').replace(/[\\%_]/g, '\\$&')}%`;
  const rows = await db
    .select()
    .from(contacts)
    .where(
      and(
        eq(contacts.accountId, accountId),
        search ? or(ilike(contacts.address, pattern), ilike(contacts.displayName, pattern)) : undefined,
        position
          ? sql`(${contacts.lastContactedAt}, ${contacts.address}) < (${position.date.toISOString()}::timestamptz, ${position.id})`
          : undefined,
      ),
    )
    .orderBy(desc(contacts.lastContactedAt), desc(contacts.address))
    .limit(limit + 1);
  const shown = rows.slice(0, limit);
  const last = shown.at(-1);
  return {
    data: shown.map(toContact),
    next: last && rows.length > limit ? { date: last.lastContactedAt, id: last.address } : null,
  };
}

function toContact(row: typeof contacts.$inferSelect): Contact {
  return {
    object: 'Contact',
    id: row.address,
    account_id: row.accountId,
    display_name: row.displayName,
    emails: [row.address],
    last_contacted_at: row.lastContactedAt.toISOString(),
  };
}
