import { and, eq, isNotNull, sql } from 'drizzle-orm';
import type { Db, Queryable } from './client.ts';
import {
  accounts,
  attachments,
  contacts,
  drafts,
  emailContents,
  emailSearch,
  emails,
  pathReservations,
  folders,
  locations,
  sends,
  threadKeys,
  threads,
  trackingRecords,
} from './schema.ts';

/** Everything of an account except its own row and its events and deliveries, which stay in the log for their time. */
const MAIL_TABLES = [
  attachments,
  emailContents,
  emailSearch,
  locations,
  drafts,
  sends,
  trackingRecords,
  contacts,
  threadKeys,
  threads,
  emails,
  folders,
  pathReservations,
];

/** Small enough for one statement to take well under a second. */
const ROWS_PER_STATEMENT = 2_000;

/** Deletes an account's mail, table by table, in statements of bounded size. Doing it again deletes what remains. */
export async function deleteMailRows(db: Db, accountId: string): Promise<void> {
  for (const table of MAIL_TABLES) {
    for (;;) {
      const some = sql`select ctid from ${table} where account_id = ${accountId} limit ${ROWS_PER_STATEMENT}`;
      const { rowCount } = await db.execute(sql`delete from ${table} where ctid = any (array(${some}))`);
      if ((rowCount ?? 0) < ROWS_PER_STATEMENT) break;
    }
  }
}

/** Whether the account's removal has begun and not ended. */
export async function isBeingRemoved(db: Queryable, accountId: string): Promise<boolean> {
  const rows = await db
    .select({ id: accounts.id })
    .from(accounts)
    .where(and(eq(accounts.id, accountId), isNotNull(accounts.removedAt)));
  return rows.length > 0;
}

/** Deletes the row of an account that is being removed. */
export async function deleteAccountRow(db: Queryable, accountId: string): Promise<void> {
  await db.delete(accounts).where(and(eq(accounts.id, accountId), isNotNull(accounts.removedAt)));
}
