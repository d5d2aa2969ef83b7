import { type SQL, sql } from 'drizzle-orm';
import type pg from 'pg';
import { MAX_LIMIT } from '../../../contract/common.ts';
import type { Email } from '../../../contract/email.ts';
import { type EmailFilter, type EmailPosition, emailPage, hasFixedPlan, pageValues, shapeOf } from './email-page.ts';
import { type AccountIds, emailPageOfAccounts } from './email-page-of-accounts.ts';
import {
  CONTENTS_AND_LOCATIONS,
  emailColumns,
  type EmailParts,
  nextOf,
  selectEmails,
  selectPage,
} from './email-select.ts';
import { compile, slot, statement } from '../../driver/statement.ts';
import { getSentEmail, sentEmail, storedOrSent } from './sent-email.ts';
import { type JsonOf, type JsonPieces, jsonPieces, parsePieces } from '../../driver/json-text.ts';

export interface EmailListing {
  data: JsonPieces<Email>[];
  /** where the next page begins; null at the end */
  next: EmailPosition | null;
}

export interface EmailPageOptions {
  metaOnly: boolean;
  /** the members that are wanted; null: all */
  fields: ReadonlySet<string> | null;
  limit: number;
  position: EmailPosition | null;
}

/** A page of an account's emails, newest first; one statement. */
export function listEmails(
  pool: pg.Pool,
  accountId: string,
  filter: EmailFilter,
  page: EmailPageOptions,
): Promise<EmailListing> {
  const statement = pageStatement(filter, page, 'one');
  return listed(pool, statement(valuesOf(accountId, filter, page)), page);
}

/** A page of the emails of several accounts, newest first; one statement. */
export function listEmailsOfAccounts(
  pool: pg.Pool,
  accountIds: AccountIds,
  filter: EmailFilter,
  page: EmailPageOptions,
): Promise<EmailListing> {
  const statement = pageStatement(filter, page, 'several');
  return listed(pool, statement({ ...valuesOf('', filter, page), accountIds }), page);
}

function valuesOf(accountId: string, filter: EmailFilter, { limit, position }: EmailPageOptions) {
  return { ...pageValues(accountId, filter, position), limit, taken: limit + 1 };
}

async function listed(pool: pg.Pool, statement: pg.QueryConfig, page: EmailPageOptions): Promise<EmailListing> {
  const selected = await selectEmails(pool, statement);
  const { fields } = page;
  const data = selected.map(({ email }) => (fields ? onlyFields(email, fields) : email));
  return { data, next: nextOf(selected) };
}

/** The members that need more than the frame. */
const OF_CONTENTS = ['body', 'body_plain', 'body_new', 'attachments'];

function partsOf({ metaOnly, fields }: Pick<EmailPageOptions, 'metaOnly' | 'fields'>): EmailParts {
  const wants = (names: string[]) => !fields || names.some((name) => fields.has(name));
  if (!metaOnly && wants(OF_CONTENTS)) return 'whole';
  return wants(['headers', ...OF_CONTENTS]) ? 'metadata' : 'frame';
}

/** `object` and `id` are in each. */
function onlyFields(email: JsonPieces<Email>, fields: ReadonlySet<string>): JsonPieces<Email> {
  const members = Object.entries(parsePieces(email));
  const kept = members.filter(([name]) => fields.has(name) || name === 'object' || name === 'id');
  return jsonPieces(JSON.stringify(Object.fromEntries(kept)) as JsonOf<Email>);
}

/** Statements of pages by their shape: to put one together takes longer than to run it. */
const pages = new Map<string, ReturnType<typeof compile>>();
const REMEMBERED = 500;
/** Pages of up to so many emails have one statement. */
const SIZES = [10, 50, MAX_LIMIT];

function pageStatement(
  filter: EmailFilter,
  { limit, position, ...wanted }: EmailPageOptions,
  accounts: 'one' | 'several',
): ReturnType<typeof compile> {
  const named = hasFixedPlan(filter);
  // no parameter, of which Postgres would expect a tenth of the table; and few numbers, for few statements
  const rows = String(1 + (named ? (SIZES.find((size) => size >= limit) ?? MAX_LIMIT) : limit));
  const parts = partsOf(wanted);
  const isLater = position !== null;
  const shape = [accounts, shapeOf(filter), parts, isLater, rows].join(' ');
  let page = pages.get(shape);
  if (!page) {
    if (pages.size >= REMEMBERED) pages.clear();
    const ids = (accounts === 'one' ? emailPage : emailPageOfAccounts)(filter, isLater, sql.raw(rows));
    const text = pageOf(ids, parts, accounts);
    const name = accounts === 'one' ? 'emails_page' : 'emails_of_accounts_page';
    page = compile(named ? statement(name, () => text)() : text);
    pages.set(shape, page);
  }
  return page;
}

/** Selects the emails of a page; `ids` selects their ids and dates, and one more, when there is one. */
function pageOf(ids: SQL, parts: EmailParts, accounts: 'one' | 'several'): SQL {
  const ofAccount = accounts === 'one' ? sql`and e.account_id = ${slot('accountId')}` : sql``;
  return sql`
    with page as materialized (select * from (${ids}) newest limit ${slot('taken')})
    ${selectPage(
      parts,
      sql`(select id from page) shown join emails e on e.id = shown.id ${ofAccount} ${CONTENTS_AND_LOCATIONS}`,
      { order: 'desc', limit: slot('limit') },
    )}`;
}

const oneEmail = (parts: EmailParts) =>
  compile(
    statement(
      'one_email',
      () => sql`
    select ${emailColumns(parts)} from emails e ${CONTENTS_AND_LOCATIONS}
    where e.id = ${slot('id')} and e.account_id = ${slot('accountId')}`,
    )(),
  );
const wholeEmail = oneEmail('whole');
const metadataOfEmail = oneEmail('metadata');
const sourceOfEmail = compile(
  statement(
    'source_of_email',
    () => sql`select storage_key as key from emails where id = ${slot('id')} and account_id = ${slot('accountId')}`,
  )(),
);

/** Reads an email; undefined when the account has none with that id. */
export async function getEmail(
  pool: pg.Pool,
  accountId: string,
  emailId: string,
  options: { metaOnly: boolean },
): Promise<JsonPieces<Email> | undefined> {
  const statement = (options.metaOnly ? metadataOfEmail : wholeEmail)({ id: emailId, accountId });
  return storedOrSent(
    async () => (await selectEmails(pool, statement))[0]?.email,
    async () => {
      const sent = await getSentEmail(pool, accountId, emailId);
      return sent && sentEmail(sent, options);
    },
  );
}

/** Storage key of the raw message of an email; undefined when the account has no such email. */
export async function getEmailSource(pool: pg.Pool, accountId: string, emailId: string): Promise<string | undefined> {
  const statement = sourceOfEmail({ id: emailId, accountId });
  return storedOrSent(
    async () => (await pool.query<{ key: string }>(statement)).rows[0]?.key,
    async () => (await getSentEmail(pool, accountId, emailId))?.storageKey ?? undefined,
  );
}
