import { sql } from 'drizzle-orm';
import { inLease, LeaseLost } from '../db/coordination/lease.ts';
import type { Db, Tx } from '../db/driver/client.ts';
import { deleteEmails } from '../mailbox/store/emails.ts';
import { forgetEmailsOf } from '../mailbox/store/locations.ts';
import type { Storage } from '../storage/storage.ts';

/** Emails of one transaction. */
const AT_ONCE = 200;
/** What was just reported can be read for so long, however old it is, hours. */
const READABLE_HOURS = 24;

/**
 * Deletes stored mail that is older than the `retention_days` of its account, from the store alone: its messages count as known from
 * then on, as those from before the connect do, so they are not ingested again, and a move of one is not new mail. No event is
 * recorded. Drafts stay.
 * @param over whether time is up; called before each step
 * @returns whether nothing is left to delete
 */
export async function deleteOldMail(
  { db, storage }: { db: Db; storage: Pick<Storage, 'delete'> },
  over: () => boolean,
): Promise<boolean> {
  const { rows: accounts } = await db.execute<{ id: string; days: number }>(sql`
    select id, retention_days as days from accounts where retention_days is not null and removed_at is null order by id`);
  for (const { id, days } of accounts) {
    for (let deleted = AT_ONCE; deleted === AT_ONCE; ) {
      if (over()) return false;
      const step = await inLease(db, { accountId: id, watchEpoch: null }, (tx) => deleteStep(tx, id, days)).catch(
        (error: unknown) => {
          if (error instanceof LeaseLost) return { count: 0, unused: [] };
          throw error;
        },
      );
      await storage.delete(step.unused);
      deleted = step.count;
    }
  }
  return true;
}

async function deleteStep(tx: Tx, accountId: string, days: number): Promise<{ count: number; unused: string[] }> {
  const { rows } = await tx.execute<{ id: string }>(sql`
    select id from emails
    where account_id = ${accountId} and not is_draft and date < now() - make_interval(days => ${days})
      and created_at < now() - make_interval(hours => ${READABLE_HOURS}) and missing_since is null
    order by date, id limit ${AT_ONCE}`);
  const ids = rows.map(({ id }) => id);
  await forgetEmailsOf(tx, ids);
  return { count: ids.length, unused: await deleteEmails(tx, ids) };
}
