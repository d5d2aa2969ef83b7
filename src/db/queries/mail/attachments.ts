import { and, asc, eq, sql } from 'drizzle-orm';
import type pg from 'pg';
import { anyOf } from '../../driver/any-of.ts';
import type { Queryable, Tx } from '../../driver/client.ts';
import { compile, slot, statement } from '../../driver/statement.ts';
import { insertRows } from '../../driver/insert-rows.ts';
import { attachments } from '../../schema/index.ts';

/** An attachment for a download. */
export interface StoredAttachment {
  name: string;
  mime: string;
  /** bytes */
  size: number;
  storageKey: string;
}

const oneAttachment = compile(
  statement(
    'one_attachment',
    () => sql`
  select a.name, a.mime, a.size::float8 as size, a.storage_key as "storageKey" from attachments a
  where a.id = ${slot('attachmentId')} and a.email_id = ${slot('emailId')} and a.account_id = ${slot('accountId')}`,
  )(),
);

/** Reads an attachment; undefined when that email of the account has none with that id. */
export async function getAttachment(
  pool: pg.Pool,
  accountId: string,
  emailId: string,
  attachmentId: string,
): Promise<StoredAttachment | undefined> {
  const { rows } = await pool.query<StoredAttachment>(oneAttachment({ attachmentId, emailId, accountId }));
  return rows[0];
}

/** Those of these attachments that the account has. */
export async function findAttachments(
  db: Queryable,
  accountId: string,
  ids: string[],
): Promise<(StoredAttachment & { id: string; emailId: string })[]> {
  const { id, emailId, name, mime, size, storageKey } = attachments;
  return db
    .select({ id, emailId, name, mime, size, storageKey })
    .from(attachments)
    .where(and(anyOf(id, ids), eq(attachments.accountId, accountId)));
}

/** Deletes the rows of an email's attachments and returns them in order: the email is saved again with them. */
export async function detachAttachments(
  tx: Tx,
  emailId: string,
): Promise<{ id: string; size: number; storageKey: string }[]> {
  const { id, size, storageKey } = attachments;
  const rows = await tx
    .select({ id, size, storageKey })
    .from(attachments)
    .where(eq(attachments.emailId, emailId))
    .orderBy(asc(id));
  await tx.delete(attachments).where(eq(attachments.emailId, emailId));
  return rows;
}

/** Inserts rows of attachments. */
export async function insertAttachments(tx: Tx, rows: (typeof attachments.$inferInsert)[]): Promise<void> {
  await insertRows(tx, attachments, rows);
}
