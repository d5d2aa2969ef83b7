import { prepared } from '../../db/prepared.ts';
import { and, eq, isNull, type SQL, sql } from 'drizzle-orm';
import type { FolderRole } from '../../contract/folder.ts';
import type { Queryable, Tx } from '../../db/client.ts';
import type { LocationKey } from '../../db/pending-removal.ts';
import { locations } from '../../db/schema.ts';
import { locationColumns, type MessageIdentity } from './locations.ts';

/** One location of an email, with what a command to it has to name and what recognises the message elsewhere. */
export interface EmailLocation extends MessageIdentity {
  folderId: string;
  path: string;
  role: FolderRole;
  /** null: the folder was never opened */
  uidValidity: number | null;
  uid: number;
  seen: boolean;
  /** \Deleted is set */
  deleted: boolean;
}

/**
 * Where an email is now, as far as known: empty while it has left a folder and has not turned up in another. What is in a
 * folder that is being vacated has left it. Undefined: the account has no such email.
 */
export async function loadLocations(
  db: Queryable,
  accountId: string,
  emailId: string,
): Promise<EmailLocation[] | undefined> {
  const { rows } = await db.execute<{ [Key in keyof EmailLocation]: EmailLocation[Key] | null }>(
    prepared(sql`
    select f.id as "folderId", f.path, f.role, f.uid_validity::float8 as "uidValidity", p.uid::float8 as uid, p.seen,
      p.deleted, p.identity, p.weak_identity as "weakIdentity", p.server_id as "serverId"
    from emails e
    left join (locations p join folders f on f.id = p.folder_id and f.vacating is null)
      on p.email_id = e.id and p.vanished_at is null
    where e.id = ${emailId} and e.account_id = ${accountId}
    order by f.id, p.uid`),
  );
  if (rows.length === 0) return undefined;
  return rows.filter((row): row is EmailLocation & Record<string, unknown> => row.folderId !== null);
}

/** An email that came into a folder by a move through this API. */
export interface MovedLocation extends LocationKey, MessageIdentity {
  accountId: string;
  emailId: string | null;
  seen: boolean;
}

/** Whether a location is read, as it is stored now; undefined when there is no such location any more. */
export async function storedSeen(tx: Tx, { folderId, uid }: LocationKey): Promise<{ seen: boolean } | undefined> {
  const [row] = await tx
    .select({ seen: locations.seen })
    .from(locations)
    .where(and(eq(locations.folderId, folderId), eq(locations.uid, uid), isNull(locations.vanishedAt)));
  return row;
}

/** Takes emails out of folders that they were moved away from, and off their counters unless that was done already. */
export async function removeLocations(tx: Tx, removed: LocationKey[]): Promise<void> {
  if (removed.length === 0) return;
  const rows = removed.map(({ folderId, uid }) => ({ folder_id: folderId, uid }));
  const remove = sql`
    delete from locations l using json_to_recordset(${JSON.stringify(rows)}::json) as r(folder_id text, uid bigint)
    where l.folder_id = r.folder_id and l.uid = r.uid
    returning l.folder_id, case when l.vanished_at is null then -1 else 0 end as by, l.seen`;
  await countAll(tx, remove);
}

/**
 * Places emails in the folders that they were moved to, unless the watch has placed them there, or has found out that the
 * email or the folder is gone.
 */
export async function addLocations(tx: Tx, added: MovedLocation[]): Promise<void> {
  if (added.length === 0) return;
  const insert = sql`
    insert into locations (folder_id, uid, account_id, email_id, date, seen, deleted, identity, weak_identity, server_id)
    select r.folder_id, r.uid, r.account_id, r.email_id, e.date, r.seen, r.deleted, r.identity, r.weak_identity, r.server_id
    from json_populate_recordset(null::locations, ${JSON.stringify(added.map(locationColumns))}::json) r
    left join emails e on e.id = r.email_id
    where (r.email_id is null or e.id is not null) and exists (select from folders f where f.id = r.folder_id)
    on conflict do nothing
    returning folder_id, 1 as by, seen`;
  await countAll(tx, insert);
}

/** Runs a statement that returns `folder_id, by, seen` and counts in all counters; STATUS corrects what others changed. */
async function countAll(tx: Tx, changed: SQL): Promise<void> {
  await tx.execute(sql`
    with changed as (${changed})
    update folders f set
      known_count = f.known_count + c.by,
      total_count = greatest(0, f.total_count + c.by),
      unread_count = greatest(0, f.unread_count + c.unread)
    from (
      select folder_id, sum(by)::int as by, coalesce(sum(by) filter (where not seen), 0)::int as unread
      from changed group by folder_id
    ) c
    where f.id = c.folder_id`);
}
