import { type SQL, sql } from 'drizzle-orm';
import type pg from 'pg';
import { MAX_LIMIT } from '../contract/common.ts';
import type { Email } from '../contract/email.ts';
import { type EmailFilter, type EmailPosition, emailPage, hasFixedPlan } from './email-page.ts';
import { emailColumns, prepare, selectEmails, slot, type Statement, toQuery } from './email-select.ts';
import { type JsonOf, type JsonPieces, jsonPieces } from './json-text.ts';

export interface EmailListing {
  data: JsonPieces<Email>[];
  /** where the next page begins; null when there is no more */
  next: EmailPosition | null;
}

interface EmailPageOptions {
  metaOnly: boolean;
  limit: number;
  position: EmailPosition | null;
}

/** A page of an account's emails, newest first (CONTRACT "Emails"); one statement. */
export async function listEmails(
  pool: pg.Pool,
  accountId: string,
  filter: EmailFilter,
  page: EmailPageOptions,
): Promise<EmailListing> {
  const statement = hasFixedPlan(filter) ? preparedPage(accountId, filter, page) : anyPage(accountId, filter, page);
  const selected = await selectEmails(pool, statement);
  const last = selected.at(-1);
  return { data: selected.map(({ email }) => email), next: last?.isMore ? last.position() : null };
}

/** Planned for its values. */
function anyPage(accountId: string, filter: EmailFilter, { metaOnly, limit, position }: EmailPageOptions): Statement {
  const ids = emailPage(accountId, filter, position, sql.raw(String(limit + 1)));
  return toQuery(pageOf(ids, { metaOnly, accountId, limit: sql`${limit}`, taken: sql`${limit + 1}` }));
}

const prepared = new Map<string, ReturnType<typeof prepare>>();

/** The same for lists whose best plan is always the same: there are a few dozen of them, each put together once. */
function preparedPage(
  accountId: string,
  { folderId, isUnread, ...rest }: EmailFilter,
  { metaOnly, limit, position }: EmailPageOptions,
): Statement {
  const shape = JSON.stringify([metaOnly, folderId !== undefined, isUnread ?? null, position !== null]);
  let statement = prepared.get(shape);
  if (!statement) {
    const account = slot('accountId');
    const filter = {
      ...rest,
      ...(folderId === undefined ? {} : { folderId: slot('folderId') }),
      ...(isUnread === undefined ? {} : { isUnread }),
    };
    const ids = emailPage(
      account,
      filter,
      position && { date: slot('date'), id: slot('id') },
      // a plan for any limit must not expect a tenth of the table, as Postgres does for a parameter
      sql.raw(String(MAX_LIMIT + 1)),
    );
    const page = pageOf(ids, { metaOnly, accountId: account, limit: slot('limit'), taken: slot('taken') });
    prepared.set(shape, (statement = prepare(page)));
  }
  return statement({ accountId, folderId, limit, taken: limit + 1, ...position });
}

/** Selects the emails of a page; `ids` selects `taken` of their ids and dates, one more than are shown. */
function pageOf(
  ids: SQL,
  { metaOnly, accountId, limit, taken }: { metaOnly: boolean; accountId: string | SQL; limit: SQL; taken: SQL },
): SQL {
  return sql`
    with page as materialized (select * from (${ids}) newest limit ${taken})
    select ${emailColumns(metaOnly, sql`(select count(*) from page) > ${limit}`)}
    from (select id, date from page order by date desc, id desc limit ${limit}) shown
    join emails e on e.id = shown.id and e.account_id = ${accountId} left join email_contents c on c.email_id = e.id
    order by shown.date desc, shown.id desc`;
}

const oneEmail = (metaOnly: boolean) =>
  prepare(sql`
    select ${emailColumns(metaOnly)} from emails e left join email_contents c on c.email_id = e.id
    where e.id = ${slot('id')} and e.account_id = ${slot('accountId')}`);
const wholeEmail = oneEmail(false);
const metadataOfEmail = oneEmail(true);
const sourceOfEmail = prepare(
  sql`select storage_key as key from emails where id = ${slot('id')} and account_id = ${slot('accountId')}`,
);

/** One email; undefined when the account has none with that id. */
export async function getEmail(
  pool: pg.Pool,
  accountId: string,
  emailId: string,
  options: { metaOnly: boolean },
): Promise<JsonPieces<Email> | undefined> {
  const statement = (options.metaOnly ? metadataOfEmail : wholeEmail)({ id: emailId, accountId });
  const [stored] = await selectEmails(pool, statement);
  // sent a moment ago: its Sent copy has not synced
  if (stored) return stored.email;
  const sent = (await getSentEmail(pool, accountId, emailId))?.email;
  return sent && jsonPieces(options.metaOnly ? withoutContents(sent) : sent);
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
  const { rows } = await pool.query<{ key: string }>(sourceOfEmail({ id: emailId, accountId }));
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
