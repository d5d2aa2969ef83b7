import { type SQL, sql } from 'drizzle-orm';
import type { Attendee } from '../contract/email.ts';
import { normalAddress } from '../mail-wire/addresses.ts';
import type { Tx } from '../db/driver/client.ts';
import { contacts as contactsTable } from '../db/schema/index.ts';
import { Writes } from '../db/driver/writes.ts';
import { isBounceSender } from '../mime/bounces.ts';
import { storableJson } from '../runtime/storable.ts';

/** Who wrote and received an email. */
export interface People {
  from: Attendee;
  to: Attendee[];
  cc: Attendee[];
  bcc: Attendee[];
}

/**
 * The people who wrote or received an email, without the owner and bounce senders; each once, with the first name given.
 * Drafts and bounces have no contacts: the caller leaves those out.
 */
export function contactsOf(ownAddresses: string[], { from, to, cc, bcc }: People): Person[] {
  const byAddress = new Map<string, string | null>();
  for (const person of [from, ...to, ...cc, ...bcc]) {
    const address = normalAddress(person.identifier);
    if (!address.includes('@') || address.length > 320) continue;
    if (ownAddresses.includes(address) || isBounceSender(address)) continue;
    byAddress.set(address, byAddress.get(address) ?? (person.display_name.trim() || null));
  }
  return [...byAddress].map(([address, displayName]) => ({ address, displayName }));
}

/*
 * Contacts are derived from the stored emails, whatever the order of arrivals and deletions. A person is a contact while
 * at least one email from or to them counts (not a draft, not a bounce): `last_at` is the date of the newest such email,
 * the name that of the newest one with a name; of two with one date the greater name. contactsOf decides who counts.
 *
 * Writers of one account run one after the other (see lease.ts), so rows read here stay valid until the commit.
 */

/** A person in an email that counts. */
export interface Person {
  /** lower-cased */
  address: string;
  displayName: string | null;
}

/** Bounds one statement: an address takes about 0.2 ms. */
const ADDRESSES_PER_STATEMENT = 500;

/** Adds the people of emails that have been stored. */
export async function addContacts(
  tx: Tx,
  accountId: string,
  mails: { date: Date; contacts: Person[] }[],
): Promise<void> {
  const writes = new Writes();
  writeContacts(writes, accountId, mails);
  await refreshContacts(tx, accountId, renamedContacts(await writes.flush(tx)));
}

/** Defers adding them to `writes`; afterwards `renamedContacts` are refreshed. */
export function writeContacts(writes: Writes, accountId: string, mails: { date: Date; contacts: Person[] }[]): void {
  const people = newest(mails);
  if (people.length === 0) return;
  // An email that is not the newest and has another name for a contact may be older than the one that gave the name: such
  // names are looked up.
  writes.read(
    'seen_contacts',
    sql`select * from json_to_recordset(${storableJson(people)}::json)
      as s(address text, name text, named_at timestamptz, last_at timestamptz)`,
  );
  writes.add(
    'known_contacts',
    sql`update contacts c set
        last_contacted_at = greatest(s.last_at, c.last_contacted_at),
        display_name = case when c.display_name is null or s.named_at > c.last_contacted_at
          then coalesce(s.name, c.display_name) else c.display_name end
      from seen_contacts s
      where c.account_id = ${accountId} and c.address = s.address
        and (s.last_at > c.last_contacted_at or (s.name is not null and s.name is distinct from c.display_name))
      returning c.address, s.name, c.display_name`,
    { table: contactsTable, isDisjoint: true },
  );
  writes.add(
    'added_contacts',
    sql`insert into contacts (account_id, address, display_name, last_contacted_at)
      select ${accountId}, s.address, s.name, s.last_at from seen_contacts s
      where not exists (select 1 from contacts c where c.account_id = ${accountId} and c.address = s.address)`,
    { table: contactsTable, isDisjoint: true },
  );
  writes.select(
    'renamed_contacts',
    sql`(select json_agg(address) from known_contacts where name is not null and name is distinct from display_name)`,
  );
}

/** Of the values of a flush: the contacts whose name may come from an email dated between those that are stored. */
export function renamedContacts(flushed: Record<string, unknown>): string[] {
  return (flushed['renamed_contacts'] as string[] | null | undefined) ?? [];
}

/** One entry for each person, as the statement of addContacts reads it. */
function newest(mails: { date: Date; contacts: Person[] }[]) {
  const people = new Map<string, { name: string | null; namedAt: Date | null; lastAt: Date }>();
  for (const { date, contacts } of mails) {
    for (const { address, displayName } of contacts) {
      const known = people.get(address) ?? { name: null, namedAt: null, lastAt: date };
      if (date > known.lastAt) known.lastAt = date;
      if (displayName !== null && names(date, displayName, known))
        Object.assign(known, { name: displayName, namedAt: date });
      people.set(address, known);
    }
  }
  return [...people].map(([address, { name, namedAt, lastAt }]) => ({
    address,
    name,
    named_at: namedAt,
    last_at: lastAt,
  }));
}

/** Whether an email of that date overrides the name that is known. */
function names(date: Date, name: string, known: { name: string | null; namedAt: Date | null }): boolean {
  if (known.name === null || known.namedAt === null || date > known.namedAt) return true;
  // in the order of Postgres' collation "C"
  return date.getTime() === known.namedAt.getTime() && Buffer.compare(Buffer.from(name), Buffer.from(known.name)) > 0;
}

/** The contacts in these emails, by account: those that may change when the emails go or become drafts. */
export async function contactsIn(tx: Tx, emailIds: string[]): Promise<Map<string, string[]>> {
  const { rows } = await tx.execute<{ account_id: string; addresses: string[] }>(sql`
    select c.account_id, array_agg(c.address) as addresses from (
      select s.account_id, s.from_address as address from email_search s where s.email_id = any(${sql.param(emailIds)}::text[])
      union
      select s.account_id, unnest(s.to_addresses) from email_search s where s.email_id = any(${sql.param(emailIds)}::text[])
    ) p join contacts c on c.account_id = p.account_id and c.address = p.address
    group by c.account_id`);
  return new Map(rows.map(({ account_id, addresses }) => [account_id, addresses]));
}

/** Recomputes these contacts from the stored emails; a contact that no email names is deleted. */
export async function refreshContacts(tx: Tx, accountId: string, addresses: string[]): Promise<void> {
  for (let start = 0; start < addresses.length; start += ADDRESSES_PER_STATEMENT) {
    await tx.execute(sql`
      with found as materialized (${currentContacts(accountId, addresses.slice(start, start + ADDRESSES_PER_STATEMENT))}),
      dropped as (
        delete from contacts c using found f
        where c.account_id = ${accountId} and c.address = f.address and f.last_at is null)
      update contacts c set last_contacted_at = f.last_at, display_name = f.name from found f
      where c.account_id = ${accountId} and c.address = f.address and f.last_at is not null
        and (c.last_contacted_at, c.display_name) is distinct from (f.last_at, f.name)`);
  }
}

/**
 * Selects `address, last_at, name` of each of these contacts from the stored emails; `last_at` is null where none counts.
 * Reads the newest emails of each until one has a name.
 */
export function currentContacts(accountId: string, addresses: string[]): SQL {
  const mails = sql`
    select s.date, s.email_id from email_search s
      where s.account_id = ${accountId} and s.from_address = p.address
    union all
    select s.date, s.email_id from email_search s
      where s.account_id = ${accountId} and s.to_addresses @> array[p.address]`;
  // `offset 0`: sorted first, then read only until one fits
  const newestFirst = sql`(select date, email_id from (${mails}) m order by date desc offset 0) m`;
  const counts = sql`(select not e.is_draft and e.bounce is null from emails e where e.id = m.email_id)`;
  const name = sql`(
    select o.person ->> 'display_name'
    from emails e, jsonb_array_elements(
      jsonb_build_array(e.from_attendee) || e.to_attendees || e.cc_attendees || e.bcc_attendees
    ) with ordinality as o(person, place)
    where e.id = m.email_id and lower(o.person ->> 'identifier') = p.address and o.person ->> 'display_name' <> ''
    order by o.place limit 1)`;
  return sql`
    select p.address,
      (select m.date from ${newestFirst} where ${counts} order by m.date desc limit 1) as last_at,
      case when p.display_name is not null then (
        select max(${name} collate "C") from (${mails}) m where ${counts} and m.date = (
          select m.date from ${newestFirst} where ${counts} and ${name} is not null order by m.date desc limit 1)
      ) end as name
    from contacts p where p.account_id = ${accountId} and p.address = any(${sql.param(addresses)}::text[])`;
}
