import { sql } from 'drizzle-orm';
import type pg from 'pg';
import { MAX_LIMIT } from '../contract/common.ts';
import type { Email } from '../contract/email.ts';
import { type EmailFilter, type EmailPosition, emailPage, hasFixedPlan } from './email-page.ts';
import { emailColumns, selectEmails, toQuery } from './email-select.ts';
import type { JsonOf } from './json-text.ts';

export interface EmailListing {
  data: JsonOf<Email>[];
  /** where the next page begins; null when there is no more */
  next: EmailPosition | null;
}

/** A page of an account's emails, newest first (CONTRACT "Emails"); one statement. */
export async function listEmails(
  pool: pg.Pool,
  accountId: string,
  filter: EmailFilter,
  page: { metaOnly: boolean; limit: number; position: EmailPosition | null },
): Promise<EmailListing> {
  const { limit } = page;
  const prepared = hasFixedPlan(filter);
  // a plan for any limit must not expect a tenth of the table, as Postgres does for a parameter
  const rows = sql.raw(String(prepared ? MAX_LIMIT + 1 : limit + 1));
  const statement = sql`
    with page as materialized (
      select * from (${emailPage(accountId, filter, page.position, rows)}) newest limit ${limit + 1})
    select ${emailColumns(page.metaOnly)}, (select count(*) from page) > ${limit} as more
    from (select id, date from page order by date desc, id desc limit ${limit}) shown
    join emails e on e.id = shown.id and e.account_id = ${accountId} left join email_contents c on c.email_id = e.id
    order by shown.date desc, shown.id desc`;
  const selected = await selectEmails<{ more: boolean }>(pool, statement, { prepared });
  const last = selected.at(-1)?.row;
  return {
    data: selected.map(({ email }) => email),
    next: last?.more ? { date: last.date, id: last.id } : null,
  };
}

/** One email; undefined when the account has none with that id. */
export async function getEmail(
  pool: pg.Pool,
  accountId: string,
  emailId: string,
  options: { metaOnly: boolean },
): Promise<JsonOf<Email> | undefined> {
  const statement = sql`
    select ${emailColumns(options.metaOnly)} from emails e left join email_contents c on c.email_id = e.id
    where e.id = ${emailId} and e.account_id = ${accountId}`;
  const [stored] = await selectEmails(pool, statement, { prepared: true });
  // sent a moment ago: its Sent copy has not synced
  if (stored) return stored.email;
  const sent = (await getSentEmail(pool, accountId, emailId))?.email;
  return sent && options.metaOnly ? withoutContents(sent) : sent;
}

function withoutContents(email: JsonOf<Email>): JsonOf<Email> {
  return JSON.stringify({
    ...(JSON.parse(email) as Email),
    body: '',
    body_plain: '',
    attachments: [],
  }) as JsonOf<Email>;
}

/** Storage key of the raw message of an email; undefined when the account has no such email. */
export async function getEmailSource(pool: pg.Pool, accountId: string, emailId: string): Promise<string | undefined> {
  const statement = sql`select storage_key as key from emails where id = ${emailId} and account_id = ${accountId}`;
  const { rows } = await pool.query<{ key: string }>(toQuery(statement, { prepared: true }));
  return rows[0]?.key ?? (await getSentEmail(pool, accountId, emailId))?.storageKey ?? undefined;
}

/** The provisional Email of a mail that was sent and whose Sent copy has not synced yet (CONTRACT "Emails", send). */
async function getSentEmail(
  pool: pg.Pool,
  accountId: string,
  id: string,
): Promise<{ email: JsonOf<Email>; storageKey: string | null } | undefined> {
  const { rows } = await pool.query<{ email: JsonOf<Email>; storageKey: string | null }>(
    `select email::text as email, storage_key as "storageKey" from sends
     where id = $1 and account_id = $2 and state = 'sent' and email is not null`,
    [id, accountId],
  );
  return rows[0];
}
