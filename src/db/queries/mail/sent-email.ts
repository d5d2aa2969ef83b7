import { type SQL, sql } from 'drizzle-orm';
import type pg from 'pg';
import type { Email } from '../../../contract/email.ts';
import { type JsonOf, type JsonPieces, jsonPieces } from '../../driver/json-text.ts';

/** The provisional Email of a sent message whose Sent copy has not synced yet. */
export interface SentEmail {
  email: JsonOf<Email>;
  /** of the raw message */
  storageKey: string | null;
}

/** Reads what is stored, else what was sent a moment ago. Its copy may be stored in between: then it is found at the second look. */
export async function storedOrSent<T>(
  readStored: () => Promise<T | undefined>,
  readSent: () => Promise<T | undefined>,
): Promise<T | undefined> {
  return (await readStored()) ?? (await readSent()) ?? (await readStored());
}

/**
 * SQL: an array of the Message-IDs of the message with this one. One that was sent through the API has two where the SMTP server
 * replaced the first: some stored copies have the one, some the other.
 *
 * @param account the id of its account
 */
export function messageIdsOf(account: SQL, messageId: SQL): SQL {
  return sql`array(
    select ${messageId}::text
    union all select sent.server_message_id from sends sent
      where sent.account_id = ${account} and sent.message_id = ${messageId} and sent.server_message_id is not null
    union all select sent.message_id from sends sent
      where sent.account_id = ${account} and sent.server_message_id = ${messageId})`;
}

/** Undefined: no such message was sent, or its copy is stored. */
export async function getSentEmail(pool: pg.Pool, accountId: string, id: string): Promise<SentEmail | undefined> {
  const { rows } = await pool.query<SentEmail>(
    `select email::text as email, storage_key as "storageKey" from sends
     where id = $1 and account_id = $2 and state = 'sent' and email is not null`,
    [id, accountId],
  );
  return rows[0];
}

/** As lists and reads return it. */
export function sentEmail({ email }: SentEmail, { metaOnly }: { metaOnly: boolean }): JsonPieces<Email> {
  return jsonPieces(metaOnly ? withoutContents(email) : email);
}

function withoutContents(email: JsonOf<Email>): JsonOf<Email> {
  return JSON.stringify({
    ...(JSON.parse(email) as Email),
    body: '',
    body_plain: '',
    body_new: null,
    attachments: [],
  }) as JsonOf<Email>;
}
