import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { eq, sql } from 'drizzle-orm';
import type { Attendee } from '../../src/contract/email.ts';
import { compile } from '../../src/db/driver/statement.ts';
import { inLease, type Lease } from '../../src/db/coordination/lease.ts';
import { contacts, locations } from '../../src/db/schema/index.ts';
import { changeEmails } from '../../src/mailbox/change-emails.ts';
import { currentContacts } from '../../src/mailbox/contacts.ts';
import { buildEmail } from '../../src/mailbox/ingest/rows.ts';
import { loadSyncSettings } from '../../src/mailbox/settings.ts';
import { deleteEmails, insertEmails, type NewEmailRows } from '../../src/mailbox/store/emails.ts';
import { newId } from '../../src/new-id.ts';
import { type TestDatabase, testDatabase } from '../helpers/servers/postgres.ts';
import { storeFolder } from '../helpers/assert/rows.ts';
import { storeAccount } from '../helpers/product/stored-account.ts';

/** Contacts are derived from the stored mail, whatever arrived and was deleted before. */

let test: TestDatabase;
beforeAll(async () => {
  test = await testDatabase();
});
afterAll(() => test.drop());

const OWNER = 'owner@example.test';

let account: string;
let lease: Lease;
let folders: { inbox: string; drafts: string };
beforeEach(async () => {
  account = await storeAccount(test.database, { userId: OWNER });
  lease = { accountId: account, watchEpoch: null };
  folders = {
    inbox: await storeFolder(test.database, account, { role: 'INBOX' }),
    drafts: await storeFolder(test.database, account, { role: 'DRAFTS' }),
  };
});

interface Mail {
  id: string;
  /** minutes from some day on */
  at: number;
  from: string;
  to?: string[];
  cc?: string[];
  bcc?: string[];
  draft?: boolean;
  bounce?: boolean;
}

/** `Name <address>` or an address alone. */
function attendee(text: string): Attendee {
  const [, name = '', address = text] = /^(.*) <(.*)>$/.exec(text) ?? [];
  return { identifier: address, display_name: name, identifier_type: 'EMAIL_ADDRESS' };
}

const dateOf = ({ at }: Mail) => new Date(Date.UTC(2026, 0, 1) + at * 60_000);
let uid = 0;

function rowsOf(mail: Mail, ownAddresses: string[]): NewEmailRows {
  const date = dateOf(mail);
  const bounce = { recipient: null, action: null, status: null, diagnostic: null };
  const parsed = {
    messageId: `<${mail.id}@x>`,
    date,
    subject: 'A mail',
    from: attendee(mail.from),
    to: (mail.to ?? []).map(attendee),
    cc: (mail.cc ?? []).map(attendee),
    bcc: (mail.bcc ?? []).map(attendee),
    replyTo: [],
    attachments: [],
    headers: [],
    body: '',
    bodyPlain: '',
    searchText: ' a mail ',
    searchSubject: ' a mail ',
    authenticationFields: [],
    bounce: mail.bounce ? { ...bounce, messageId: null } : null,
  };
  const meta = { uid: ++uid, size: 100, internalDate: date, seen: true, flags: [] };
  const read = { emailId: mail.id, meta, parsed, storageKey: 'k', attachments: [] };
  return buildEmail(
    { id: account, ownAddresses, connectedAt: new Date() },
    read as unknown as Parameters<typeof buildEmail>[1],
    { threadId: newId('thread'), subjectKey: null },
    {
      isDraft: mail.draft ?? false,
      bounce: mail.bounce ? { ...bounce, message_id: null, email_id: null, tracking_id: null } : null,
      complaint: null,
      ...{ copyOf: null, draft: null, sentByApi: false, authservId: null },
      now: new Date(),
    },
  );
}

async function take(mails: Mail[]): Promise<void> {
  const own = (await loadSyncSettings(test.database.db, account))?.ownAddresses ?? [];
  expect(own).toContain(OWNER);
  await inLease(test.database.db, lease, async (tx) => {
    await insertEmails(
      tx,
      account,
      mails.map((mail) => rowsOf(mail, own)),
      new Date(),
    );
    await tx.insert(locations).values(
      mails.map((mail) => ({
        folderId: mail.draft ? folders.drafts : folders.inbox,
        uid: ++uid,
        accountId: account,
        emailId: mail.id,
        date: dateOf(mail),
        seen: true,
        identity: mail.id,
        weakIdentity: mail.id,
      })),
    );
  });
}

const drop = (mails: Mail[]) =>
  inLease(test.database.db, lease, (tx) =>
    deleteEmails(
      tx,
      mails.map(({ id }) => id),
    ),
  );

/** Moves a mail into Drafts or out of it. */
async function move(mail: Mail, draft: boolean): Promise<void> {
  mail.draft = draft;
  const folderId = draft ? folders.drafts : folders.inbox;
  await inLease(test.database.db, lease, (tx) =>
    changeEmails(tx, { lease, emailIds: [mail.id], now: new Date() }, async () => {
      await tx.update(locations).set({ folderId }).where(eq(locations.emailId, mail.id));
    }),
  );
}

async function stored(): Promise<string[]> {
  const rows = await test.database.db.select().from(contacts).where(eq(contacts.accountId, account));
  return rows.map((row) => shown(row.address, row.displayName, row.lastContactedAt)).sort();
}

const shown = (address: string, name: string | null, date: Date) => `${address} ${name ?? '-'} ${date.toISOString()}`;

/** By the rule, looking at each mail. */
function expected(mails: Mail[]): string[] {
  const found = new Map<string, { name: string | null; named: Mail | null; last: Mail }>();
  for (const mail of mails.filter(({ draft, bounce }) => !draft && !bounce)) {
    const people = [mail.from, ...(mail.to ?? []), ...(mail.cc ?? []), ...(mail.bcc ?? [])].map(attendee);
    for (const address of new Set(people.map(({ identifier }) => identifier.toLowerCase()))) {
      if (address === OWNER || /^(mailer-daemon|postmaster)@/.test(address)) continue;
      const name = people.find((one) => one.identifier.toLowerCase() === address && one.display_name)?.display_name;
      const one = found.get(address) ?? { name: null, named: null, last: mail };
      if (mail.at > one.last.at) one.last = mail;
      const later =
        one.named === null ||
        mail.at > one.named.at ||
        (mail.at === one.named.at && isGreater(name ?? '', one.name ?? ''));
      if (name && later) Object.assign(one, { name, named: mail });
      found.set(address, one);
    }
  }
  return [...found].map(([address, { name, last }]) => shown(address, name, dateOf(last))).sort();
}

const isGreater = (a: string, b: string) => Buffer.compare(Buffer.from(a), Buffer.from(b)) > 0;

/** The same numbers from 0 to 1 on every run. */
function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

describe('contacts', () => {
  it('are the senders and recipients of mail, with the newest name', async () => {
    const [old, newer, newest] = [
      { id: newId('email'), at: 1, from: 'Ann <Ann@example.test>', to: [OWNER, 'bob@example.test'] },
      { id: newId('email'), at: 2, from: `Me <${OWNER}>`, to: ['Annie <ann@example.test>'], bcc: ['c@example.test'] },
      { id: newId('email'), at: 3, from: 'ann@example.test', to: ['postmaster@example.test'] },
    ];
    await take([newest, old]);
    expect(await stored()).toEqual(expected([newest, old]));
    // older than the newest mail and newer than the name
    await take([newer]);
    expect(await stored()).toEqual(
      [
        ['ann@example.test', 'Annie', newest],
        ['bob@example.test', '-', old],
        ['c@example.test', '-', newer],
      ].map(([address, name, mail]) => shown(address as string, name as string, dateOf(mail as Mail))),
    );
    await drop([newer]);
    expect(await stored()).toEqual(expected([newest, old]));
    await drop([newest]);
    expect(await stored()).toEqual(expected([old]));
    await drop([old]);
    expect(await stored()).toEqual([]);
  });

  it('count once a draft has left Drafts, and no longer when it returns', async () => {
    const draft: Mail = { id: newId('email'), at: 5, from: OWNER, to: ['Bob <bob@example.test>'], draft: true };
    const mail: Mail = { id: newId('email'), at: 4, from: 'Robert <bob@example.test>', to: [OWNER] };
    await take([draft, mail]);
    expect(await stored()).toEqual([shown('bob@example.test', 'Robert', dateOf(mail))]);
    await move(draft, false);
    expect(await stored()).toEqual([shown('bob@example.test', 'Bob', dateOf(draft))]);
    await move(draft, true);
    expect(await stored()).toEqual([shown('bob@example.test', 'Robert', dateOf(mail))]);
    await drop([mail]);
    expect(await stored()).toEqual([]);
    await move(draft, false);
    await move(draft, false);
    expect(await stored()).toEqual(expected([draft]));
  });

  it('are not created by bounces and drafts, nor when these are deleted', async () => {
    const [bounce, draft, mail]: [Mail, Mail, Mail] = [
      { id: newId('email'), at: 9, from: 'MX <mx@example.test>', to: ['Bob <bob@example.test>'], bounce: true },
      { id: newId('email'), at: 8, from: OWNER, to: ['Bobby <bob@example.test>'], draft: true },
      { id: newId('email'), at: 7, from: 'Robert <bob@example.test>' },
    ];
    await take([bounce, draft, mail]);
    expect(await stored()).toEqual(expected([mail]));
    await drop([bounce]);
    await drop([draft]);
    expect(await stored()).toEqual(expected([mail]));
  });

  it('of one account are not those of another', async () => {
    const mail: Mail = { id: newId('email'), at: 1, from: 'Ann <ann@example.test>' };
    await take([mail]);
    const [first, firstLease] = [account, lease];
    account = await storeAccount(test.database, { userId: OWNER });
    lease = { accountId: account, watchEpoch: null };
    const other: Mail = { id: newId('email'), at: 2, from: 'Anna <ann@example.test>' };
    await take([other]);
    await drop([other]);
    expect(await stored()).toEqual([]);
    [account, lease] = [first, firstLease];
    expect(await stored()).toEqual(expected([mail]));
  });

  it.each(Array.from({ length: 8 }, (_, seed) => [seed]))(
    'are the same whatever the order in which mail comes, goes and is moved (%i)',
    async (seed) => {
      const random = randomFrom(seed + 1);
      const pick = <T>(list: T[]): T => list[Math.floor(random() * list.length)] as T;
      const names = ['', '', 'Ann', 'ann', 'Ähn', '안', '\u{1F600}', '\uFF21nn'];
      const person = () => {
        const address = pick(['a', 'B', 'c', 'd', 'e', 'f', 'owner', 'mailer-daemon']) + '@example.test';
        const name = pick(names);
        return name ? `${name} <${random() < 0.3 ? address.toUpperCase() : address}>` : address;
      };
      const some = () => Array.from({ length: Math.floor(random() * 3) }, person);
      const mails: Mail[] = Array.from({ length: 40 }, () => ({
        id: newId('email'),
        at: Math.floor(random() * 10),
        from: person(),
        to: some(),
        cc: some(),
        bcc: some(),
        draft: random() < 0.15,
        bounce: random() < 0.1,
      }));
      const waiting = [...mails].sort(() => random() - 0.5);
      const there: Mail[] = [];
      while (waiting.length > 0) {
        const batch = waiting.splice(0, 1 + Math.floor(random() * 6));
        await take(batch);
        there.push(...batch);
        if (random() < 0.5) await drop(there.splice(0, Math.floor(random() * 4)));
        const moved = pick(there);
        if (moved && random() < 0.4) await move(moved, !moved.draft);
        expect(await stored()).toEqual(expected(there));
      }
    },
  );
});

describe('deleting much mail', () => {
  const MAILS = 20_000;
  const LIST = 'list@example.test';

  beforeEach(async () => {
    const { pool } = test.database;
    const id = `'email_${account.slice(-8)}' || lpad(n::text, 18, '0')`;
    const date = `timestamptz '2025-01-01' + n * interval '1 minute'`;
    const person = (address: string, name: string) =>
      `json_build_object('identifier', ${address}, 'display_name', ${name}, 'identifier_type', 'EMAIL_ADDRESS')::jsonb`;
    const sender = `'p' || n % 3000 || '@example.test'`;
    const other = `'q' || n % 500 || '@example.test'`;
    await pool.query(`
      insert into emails (id, account_id, thread_id, date, message_id, subject, from_attendee, to_attendees, cc_attendees,
        bcc_attendees, reply_to_attendees, has_attachments, is_unread, size, internal_date, storage_key, created_at)
      select ${id}, '${account}', 'thr_' || n, ${date}, '<' || n || '@x>', 'Subject', ${person(sender, `'P' || n`)},
        jsonb_build_array(${person(`'${LIST}'`, `''`)}, ${person(other, `'Q'`)}), '[]', '[]', '[]',
        false, false, 1000, ${date}, 'k', ${date} from generate_series(1, ${MAILS}) n`);
    await pool.query(`
      insert into email_search (email_id, account_id, date, text, subject, from_address, to_addresses)
      select ${id}, '${account}', ${date}, ' x ', ' x ', ${sender}, array['${LIST}', ${other}]
      from generate_series(1, ${MAILS}) n`);
    await pool.query(`
      insert into contacts (account_id, address, display_name, last_contacted_at)
      select '${account}', p.address, (array_agg(nullif(p.name, '') order by p.date desc))[1], max(p.date) from (
        select o ->> 'identifier' as address, o ->> 'display_name' as name, date
        from emails, jsonb_array_elements(jsonb_build_array(from_attendee) || to_attendees) o
        where account_id = '${account}'
      ) p group by p.address`);
    await pool.query('vacuum analyze emails, email_search, contacts');
  }, 60_000);

  it('takes a moment, and does not read all of it', async () => {
    const { text, values } = compile(currentContacts(account, [LIST, 'p1@example.test', 'nobody@example.test']))();
    const { rows } = await test.database.pool.query<{ 'QUERY PLAN': string }>(`explain ${text}`, values);
    expect(rows.map((row) => row['QUERY PLAN']).join('\n')).not.toMatch(/Seq Scan on (emails|email_search)/);
    const { rows: newest200 } = await test.database.pool.query<{ id: string }>(
      'select id from emails where account_id = $1 order by date desc limit 200',
      [account],
    );
    const rowsRead = await inLease(test.database.db, lease, async (tx) => {
      await deleteEmails(
        tx,
        newest200.map(({ id }) => id),
      );
      const { rows } = await tx.execute<{ read: number }>(
        sql`select sum(seq_tup_read + coalesce(idx_tup_fetch, 0))::float as read from pg_stat_xact_user_tables`,
      );
      return rows[0]?.read;
    });
    // reading all mail for each contact would be millions
    expect(rowsRead).toBeLessThan(500_000);
    expect(rowsRead).toBeGreaterThan(200);
    const left = await stored();
    expect(left).toHaveLength(3501);
    const newest = (n: number) => new Date(Date.UTC(2025, 0, 1) + n * 60_000);
    expect(left).toContain(shown(LIST, null, newest(MAILS - 200)));
    expect(left).toContain(shown('p1999@example.test', 'P16999', newest(16_999)));
    expect(left).toContain(shown('q499@example.test', 'Q', newest(MAILS - 501)));
  });
});
