import { sql } from 'drizzle-orm';
import type pg from 'pg';
import { isId } from '../../contract/ids.ts';
import { ENDPOINT_NAME, PUBLIC_URL } from './endpoint-name.ts';
import { LOOKED_UP, type LookedUp, type LookupHit } from '../../contract/lookup.ts';
import { compile } from '../driver/statement.ts';
import { messageIdsOf } from './mail/sent-email.ts';

/** Objects that a lookup lists at most. */
export const MOST_HITS = 20;

/** Selects `id`, `account_id`, `email_id` and `name` of the object with the id $1. */
const BY_ID: Record<LookedUp, string> = {
  account: `select id, id as account_id, null as email_id, name from accounts where id = $1 and removed_at is null`,
  email: `
    select id, account_id, id as email_id, subject as name from emails where id = $1
    union select id, account_id, id, '' from sends where id = $1 and not exists (select from emails where id = $1)`,
  attachment: `select id, account_id, email_id, name from attachments where id = $1`,
  folder: `select id, account_id, null as email_id, name from folders where id = $1`,
  draft: `select id, account_id, null as email_id, '' as name from drafts where id = $1`,
  thread: `select id, account_id, null as email_id, '' as name from threads where id = $1`,
  tracking: `select id, account_id, email_id, coalesce(label, '') as name from tracking_records where id = $1`,
  event: `select id, account_id, null as email_id, type as name from events where id = $1`,
  delivery: `select id, account_id, null as email_id, event_type as name from deliveries where id = $1`,
  endpoint: `select id, null as account_id, null as email_id, ${ENDPOINT_NAME} as name
    from webhook_endpoints where id = $1`,
  replay: `select id, null as account_id, null as email_id, status as name from replays where id = $1`,
  import: `select id, account_id, null as email_id, status as name from imports where id = $1`,
  batch: `select id, account_id, null as email_id, status as name from batches where id = $1`,
  apiKey: `select id, null as account_id, null as email_id, name from api_keys where id = $1`,
  authLink: `select id, null as account_id, null as email_id, coalesce(name, '') as name from auth_links where id = $1`,
  oauthApp: `select id, null as account_id, null as email_id, name from oauth_apps where id = $1`,
};

const MESSAGE_IDS = compile(messageIdsOf(sql.raw('a.id'), sql.raw('$1')))().text;

/** Selects emails of all accounts by their Message-ID $1, by the index of each account. */
const BY_MESSAGE_ID = `
  select 'email' as kind, found.* from accounts a cross join lateral (
    select id, account_id, id as email_id, subject as name from emails e
    where e.account_id = a.id and e.message_id = any(${MESSAGE_IDS}) order by date desc limit ${MOST_HITS}) found
  where a.removed_at is null`;

/** Selects accounts and endpoints whose name, address or URL has the LIKE pattern $1. */
const BY_NAME = `
  select 'account' as kind, id, id as account_id, null as email_id, name from accounts
  where removed_at is null and (name ilike $1 or user_id ilike $1)
  union all
  select 'endpoint', id, null, null, ${ENDPOINT_NAME} from webhook_endpoints
  where description ilike $1 or ${PUBLIC_URL} ilike $1`;

/**
 * Finds the object with an id, the emails with a Message-ID, or the mailboxes and endpoints whose name contains a text.
 * `accountIds`: the accounts whose objects are listed, and none of the installation; null: all.
 */
export async function lookup(pool: pg.Pool, text: string, accountIds: readonly string[] | null): Promise<LookupHit[]> {
  const { name, hits, value } = search(text.trim());
  const { rows } = await pool.query<LookupHit>({
    name: `lookup-${name}`,
    text: `
      select 'LookupHit' as object, kind, id, account_id, email_id, name from (${hits}) hits
      where ($2::text[] is null or account_id = any($2))
        and (account_id is null or kind in ('event', 'delivery')
          or exists (select from accounts a where a.id = hits.account_id and a.removed_at is null))
      order by kind, name, id limit ${MOST_HITS}`,
    values: [value, accountIds],
  });
  return rows;
}

function search(text: string): { name: string; hits: string; value: string } {
  const kind = LOOKED_UP.find((one) => isId(one, text));
  if (kind) return { name: kind, hits: `select '${kind}' as kind, found.* from (${BY_ID[kind]}) found`, value: text };
  if (/^<[^\s<>]+@[^\s<>]+>$/.test(text)) return { name: 'message-id', hits: BY_MESSAGE_ID, value: text };
  return { name: 'name', hits: BY_NAME, value: `%${text.replace(/[\\%_]/g, '\\$&')}%` };
}
