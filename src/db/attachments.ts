import { sql } from 'drizzle-orm';
import type pg from 'pg';
import { toQuery } from './email-select.ts';

/** What a download needs to know of an attachment. */
export interface StoredAttachment {
  name: string;
  mime: string;
  /** bytes */
  size: number;
  storageKey: string;
}

/** One attachment; undefined when that email of the account has none with that id. */
export async function getAttachment(
  pool: pg.Pool,
  accountId: string,
  emailId: string,
  attachmentId: string,
): Promise<StoredAttachment | undefined> {
  const statement = sql`
    select a.name, a.mime, a.size::float8 as size, a.storage_key as "storageKey" from attachments a
    where a.id = ${attachmentId} and a.email_id = ${emailId} and a.account_id = ${accountId}`;
  const { rows } = await pool.query<StoredAttachment>(toQuery(statement, { prepared: true }));
  return rows[0];
}
