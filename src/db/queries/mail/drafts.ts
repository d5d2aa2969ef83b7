import { sql } from 'drizzle-orm';
import type pg from 'pg';
import type { Email } from '../../../contract/email.ts';
import type { EmailPosition } from './email-page.ts';
import { CONTENTS_AND_LOCATIONS, emailColumns, nextOf, selectEmails, selectPage } from './email-select.ts';
import { compile, slot, statement } from '../../driver/statement.ts';
import type { EmailListing } from './emails.ts';
import type { JsonPieces } from '../../driver/json-text.ts';

/** A sent or superseded draft is about to be removed from the mailbox. */
const isActive = sql`exists (select from drafts d where d.id = e.draft_id and d.state = 'active')`;

/** A page of the drafts that have synced, newest first. */
export async function listDrafts(
  pool: pg.Pool,
  accountId: string,
  page: { limit: number; position: EmailPosition | null },
): Promise<EmailListing> {
  const { limit, position } = page;
  const beyond = position ? sql`and (e.date, e.id) < (${position.date}::timestamptz, ${position.id})` : sql``;
  const from = sql`(
    select * from emails e
    where e.account_id = ${accountId} and e.is_draft and ${isActive} ${beyond}
    order by e.date desc, e.id desc limit ${limit + 1}) e ${CONTENTS_AND_LOCATIONS}`;
  const emails = await selectEmails(pool, compile(selectPage('whole', from, { order: 'desc', limit }))());
  return { data: emails.map(({ email }) => email), next: nextOf(emails) };
}

const oneDraft = compile(
  statement(
    'one_draft',
    () => sql`
  select ${emailColumns('whole')} from emails e ${CONTENTS_AND_LOCATIONS}
  where (e.draft_id = ${slot('id')} or e.id = ${slot('id')}) and e.account_id = ${slot('accountId')} and e.is_draft
    and ${isActive}`,
  )(),
);

/** Reads a draft by its `drf_…` or `email_…` id; undefined when the account has no such draft. */
export async function getDraft(pool: pg.Pool, accountId: string, id: string): Promise<JsonPieces<Email> | undefined> {
  const [draft] = await selectEmails(pool, oneDraft({ id, accountId }));
  return draft?.email;
}
