import { sql } from 'drizzle-orm';
import type { Database } from '../../../src/db/driver/client.ts';

/**
 * Stores emails of an account in one folder: one a minute, each different, in separate threads. Words: `common` in each,
 * `tenth` in one of ten, `hundredth` in one of a hundred, `early` in those of the first half. `shift`: seconds that all of
 * them are later.
 */
export async function fillAccount(
  { db }: Database,
  { owner, folder, emails, shift = 0 }: { owner: string; folder: string; emails: number; shift?: number },
): Promise<void> {
  const numbers = sql.raw(`generate_series(1, ${emails}) n`);
  const id = sql`${`email_${owner.slice(-8)}`} || lpad(n::text, 18, '0')`;
  const date = sql`timestamptz '2025-01-01' + n * interval '1 minute' + ${shift} * interval '1 second'`;
  await db.execute(sql`
    insert into emails (id, account_id, thread_id, date, message_id, subject, from_attendee, to_attendees, cc_attendees,
      bcc_attendees, reply_to_attendees, has_attachments, is_unread, size, internal_date, storage_key, created_at)
    select ${id}, ${owner}, 'thr_' || right(${owner}, 8) || n, ${date}, '<' || n || '@x>', 'Subject ' || n,
      json_build_object('identifier_type', 'EMAIL_ADDRESS', 'display_name', 'P', 'identifier', 'p' || n % 500 || '@example.test'),
      '[]', '[]', '[]', '[]',
      n % 50 = 0, n % 20 = 0, 1000, ${date}, 'k', ${date} from ${numbers}`);
  await db.execute(sql`
    insert into email_search (email_id, account_id, date, text, subject, from_address, to_addresses)
    select ${id}, ${owner}, ${date},
      ' subject ' || n || ' common ' || case when n % 10 = 0 then 'tenth ' else '' end
        || case when n % 100 = 0 then 'hundredth ' else '' end || case when n < ${emails / 2} then 'early ' else '' end
        || md5(n::text) || ' ' || md5('a' || n) || ' ',
      ' subject ' || n || ' ', 'p' || n % 500 || '@example.test', array['owner@example.test'] from ${numbers}`);
  await db.execute(sql`
    insert into email_contents (email_id, account_id, body, body_plain, headers, attachments)
    select ${id}, ${owner}, '"b"', '"p"', '[]', '[]' from ${numbers}`);
  await db.execute(sql`
    insert into locations (folder_id, uid, account_id, email_id, date, seen, identity, weak_identity)
    select ${folder}, n, ${owner}, ${id}, ${date}, true, n::text, n::text from ${numbers}`);
  await db.execute(sql`
    insert into thread_summaries (thread_id, account_id, last_date, last_email_id, emails, unread, starred, with_attachments)
    select thread_id, account_id, date, id, 1, is_unread::int, 0, has_attachments::int from emails where account_id = ${owner}
    on conflict do nothing`);
}
