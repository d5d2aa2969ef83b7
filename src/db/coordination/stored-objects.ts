import { sql } from 'drizzle-orm';
import type { Db, Queryable } from '../driver/client.ts';

/*
 * Which objects in storage the rows of an account name. Keys are `<account>/<kind>/<id>[.ending]`: `raw` and `att` hold
 * ingested messages and attachments, `outgoing` and `sent` the input of a send or a draft.
 */

/**
 * Of these keys of an account, those that no row names; keys of other kinds are skipped. Waits for the account's open
 * transaction, so that a COMMIT whose response was lost counts.
 */
export function unreferencedKeys(db: Db, accountId: string, keys: string[]): Promise<string[]> {
  return db.transaction(async (tx) => {
    await tx.execute(sql`select 1 from accounts where id = ${accountId} for no key update`);
    return withoutRow(tx, keys);
  });
}

const KEY = /^[^/]+\/(raw|att|outgoing|sent)\/[^/]+$/;

async function withoutRow(tx: Queryable, keys: string[]): Promise<string[]> {
  const objects = keys
    .filter((key) => KEY.test(key))
    .map((key) => ({ key, id: key.split('/').at(-1)?.replace(/\..*$/, '') ?? '' }));
  if (objects.length === 0) return [];
  const { rows } = await tx.execute<{ key: string }>(sql`
    select o.key from json_to_recordset(${JSON.stringify(objects)}::json) as o(key text, id text)
    where not exists (select 1 from emails e where e.id = o.id and e.storage_key = o.key)
      -- the email of a Sent copy has the id of its send
      and not exists (select 1 from emails e where e.origin = 'api' and e.storage_key = o.key)
      and not exists (select 1 from attachments a where a.id = o.id and a.storage_key = o.key)
      and not exists (select 1 from sends s where s.id = o.id and (s.input_key = o.key or s.storage_key = o.key))
      and not exists (select 1 from drafts d where d.id = o.id and d.input_key = o.key)`);
  return rows.map(({ key }) => key);
}

/** An account whose objects are to be compared with its rows. */
export interface DueSweep {
  accountId: string;
  /** the last key compared by the current sweep */
  after: string | null;
}

/** The account whose sweep has begun, else the one with the oldest last sweep, if that ended before `before`. */
export async function nextSweep(db: Queryable, before: Date): Promise<DueSweep | undefined> {
  const { rows } = await db.execute<{ id: string; after: string | null }>(sql`
    select id, storage_sweep_after as after from accounts
    where removed_at is null and (storage_swept_at is null or storage_swept_at < ${before.toISOString()})
    order by storage_sweep_after is null, storage_swept_at nulls first, id limit 1`);
  const [row] = rows;
  return row && { accountId: row.id, after: row.after };
}

/** Saves the progress of a sweep; `after` null: it has ended. */
export async function saveSweep(db: Queryable, accountId: string, after: string | null, now: Date): Promise<void> {
  const sweptAt = after === null ? sql`${now.toISOString()}` : sql`storage_swept_at`;
  await db.execute(
    sql`update accounts set storage_sweep_after = ${after}, storage_swept_at = ${sweptAt} where id = ${accountId}`,
  );
}

/** Saves that a sweep failed: its account is the last in line again, and its next sweep continues from the same progress. */
export async function postponeSweep(db: Queryable, accountId: string, now: Date): Promise<void> {
  await db.execute(sql`update accounts set storage_swept_at = ${now.toISOString()} where id = ${accountId}`);
}
