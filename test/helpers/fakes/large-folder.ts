import { sql } from 'drizzle-orm';
import type { Database, Db, Tx } from '../../../src/db/driver/client.ts';

/** The id of the email at a UID of a filled folder. */
export const emailAt = (uid: number): string => `email_${String(uid).padStart(8, '0')}`;

/**
 * Fills a folder as the sync does: `count` unread locations with UIDs from 1. Locations whose UIDs are multiples of
 * `every` have an email; the others are baseline.
 */
export async function fillFolder(
  { db }: Database,
  accountId: string,
  folderId: string,
  { count, every }: { count: number; every: number },
): Promise<void> {
  const id = sql.raw(`'email_' || lpad(n::text, 8, '0')`);
  const numbers = sql`generate_series(${every}::int, ${count}::int, ${every}::int) n`;
  await db.execute(sql`
    insert into emails (id, account_id, thread_id, date, message_id, subject, from_attendee, to_attendees, cc_attendees,
      bcc_attendees, reply_to_attendees, has_attachments, is_unread, size, internal_date, storage_key, created_at)
    select ${id}, ${accountId}, 'thr_' || n, now(), '<' || n || '@example.test>', 'Hello', '{}', '[]', '[]', '[]', '[]',
      false, true, 1000, now(), 'raw/' || n, now() from ${numbers}`);
  await db.execute(sql`
    insert into email_contents (email_id, account_id, body, body_plain, headers, attachments)
    select ${id}, ${accountId}, '"Hello"', '"Hello"', '[]', '[]' from ${numbers}`);
  await db.execute(sql`
    insert into locations (folder_id, uid, account_id, email_id, date, seen, identity, weak_identity)
    select ${folderId}, n, ${accountId}, case when n % ${every}::int = 0 then ${id} end, now(), false, 'i' || n, 'w' || n
    from generate_series(1, ${count}::int) n`);
  await db.execute(sql`
    update folders set known_count = ${count}, total_count = ${count}, unread_count = ${count},
      uid_validity = 1, uid_next = ${count + 1}, baseline_uid_next = 1, scanned_from = 1 where id = ${folderId}`);
  await db.execute(sql`analyze`);
}

/** One transaction that has ended. */
export interface Measured {
  rowsRead: number;
  rowsWritten: number;
}

/** A database whose transactions are counted. */
export interface MeasuredDb {
  db: Db;
  transactions: Measured[];
  /** called within each transaction, before its commit; an error rolls it back, as a crash would */
  beforeCommit: (number: number) => void | Promise<void>;
}

/** Counts the rows that each transaction of this database reads and writes, indexes aside. */
export function measure({ db }: Database): MeasuredDb {
  const measured: MeasuredDb = { db, transactions: [], beforeCommit: () => {} };
  const transaction: Db['transaction'] = (work, config) => {
    return db
      .transaction(async (tx) => {
        const before = await rowsOf(tx);
        const result = await work(tx);
        const after = await rowsOf(tx);
        await measured.beforeCommit(measured.transactions.length + 1);
        return { result, rowsRead: after.read - before.read, rowsWritten: after.written - before.written };
      }, config)
      .then(({ result, rowsRead, rowsWritten }) => {
        measured.transactions.push({ rowsRead, rowsWritten });
        return result;
      });
  };
  measured.db = new Proxy(db, {
    get: (target, key) => (key === 'transaction' ? transaction : (Reflect.get(target, key) as unknown)),
  });
  return measured;
}

async function rowsOf(tx: Tx): Promise<{ read: number; written: number }> {
  const { rows } = await tx.execute<{ read: string; written: string }>(sql`
    select coalesce(sum(seq_tup_read + coalesce(idx_tup_fetch, 0)), 0) as read,
      coalesce(sum(n_tup_ins + n_tup_upd + n_tup_del), 0) as written
    from pg_stat_xact_user_tables`);
  return { read: Number(rows[0]?.read), written: Number(rows[0]?.written) };
}
