import { statement } from '../../db/driver/statement.ts';
import { sql } from 'drizzle-orm';
import type { FolderRole } from '../../contract/folder.ts';
import type { Queryable, Tx } from '../../db/driver/client.ts';
import { isBeingMoved, type LocationKey } from '../../db/queries/pending-removal.ts';
import { locationColumns, type MessageIdentity } from './locations.ts';

/**
 * One location of an email, with the values that a command to it names and those by which the message is recognised
 * elsewhere.
 */
export interface EmailLocation extends MessageIdentity {
  folderId: string;
  path: string;
  role: FolderRole;
  /** null: the folder was never opened */
  uidValidity: number | null;
  uid: number;
  seen: boolean;
  flags: string[] | null;
  /** \Deleted is set */
  deleted: boolean;
  /** another call is moving the email out of it */
  beingMoved: boolean;
}

/** The columns and tables of EmailLocation, for the emails of `e`; without a location they are null. */
const LOCATION = sql`
    f.id as "folderId", f.path, f.role, f.uid_validity::float8 as "uidValidity", p.uid::float8 as uid, p.seen,
      p.flags, p.deleted, ${sql.raw(isBeingMoved('p'))} as "beingMoved", p.identity, p.weak_identity as "weakIdentity", p.server_id as "serverId"
    from emails e
    left join (locations p join folders f on f.id = p.folder_id and f.vacating is null)
      on p.email_id = e.id and p.vanished_at is null`;

const locationsOfEmail = statement(
  'load_locations',
  (accountId: string, emailId: string) => sql`
    select ${LOCATION}
    where e.id = ${emailId} and e.account_id = ${accountId}
    order by f.id, p.uid`,
);

/**
 * The locations of an email, as far as known: empty while it has left a folder and has not turned up in another. A message
 * in a folder that is being vacated has left it. Undefined: the account has no such email.
 */
export async function loadLocations(
  db: Queryable,
  accountId: string,
  emailId: string,
): Promise<EmailLocation[] | undefined> {
  const { rows } = await db.execute<{ [Key in keyof EmailLocation]: EmailLocation[Key] | null }>(
    locationsOfEmail(accountId, emailId),
  );
  if (rows.length === 0) return undefined;
  return rows.filter((row): row is EmailLocation & Record<string, unknown> => row.folderId !== null);
}

/** The locations of each of these emails of an account, as `loadLocations` returns those of one. */
export async function loadLocationsOf(
  db: Queryable,
  accountId: string,
  emailIds: string[],
): Promise<Map<string, EmailLocation[]>> {
  const { rows } = await db.execute<Record<string, unknown> & EmailLocation & { emailId: string }>(sql`
    select e.id as "emailId", ${LOCATION}
    where e.id = any(${sql.param(emailIds)}::text[]) and e.account_id = ${accountId}`);
  const found = new Map<string, EmailLocation[]>();
  for (const { emailId, ...location } of rows) {
    const known = found.get(emailId) ?? [];
    found.set(emailId, (location.folderId as string | null) === null ? known : [...known, location]);
  }
  return found;
}

/** An email that came into a folder by a move through this API. */
export interface MovedLocation extends LocationKey, MessageIdentity {
  accountId: string;
  emailId: string | null;
  seen: boolean;
  flags: string[] | null;
}

/** The changes of locations that this API has made. */
export interface LocationChanges {
  /** locations that emails have left */
  removed: LocationKey[];
  added?: MovedLocation[];
  /** emails whose new location is known now: their vanished locations are deleted */
  settled?: string[];
  /** further folders that it has changed */
  touched?: string[];
}

/** Stated so that no cached plan reads the index of all vanished locations: there may be 100,000 of them later. */
const HAS_VANISHED = sql.raw(`coalesce(l.vanished_at, 'infinity') < 'infinity'`);
const IS_THERE = sql.raw(`coalesce(l.vanished_at, 'infinity') = 'infinity'`);

const moved = statement('move_locations', ({ removed, added = [], settled = [], ...change }: LocationChanges) => {
  const rows = removed.map(({ folderId, uid }) => ({ folder_id: folderId, uid }));
  const touched = [...new Set([...(change.touched ?? []), ...[...removed, ...added].map(({ folderId }) => folderId)])];
  return sql`
    with left_behind as (
      delete from locations l using json_to_recordset(${JSON.stringify(rows)}::json) as r(folder_id text, uid bigint)
      where l.folder_id = r.folder_id and l.uid = r.uid
      returning l.folder_id, case when l.vanished_at is null then -1 else 0 end as by, l.seen
    ), vanished as (
      delete from locations l
      where l.email_id = any(${sql.param(settled)}::text[]) and ${HAS_VANISHED}
        and not exists (
          select from json_to_recordset(${JSON.stringify(rows)}::json) as r(folder_id text, uid bigint)
          where l.folder_id = r.folder_id and l.uid = r.uid)
    ), placed as (
      insert into locations
        (folder_id, uid, account_id, email_id, date, seen, deleted, flags, identity, weak_identity, server_id)
      select r.folder_id, r.uid, r.account_id, r.email_id, e.date, r.seen, r.deleted, r.flags, r.identity, r.weak_identity,
        r.server_id
      from json_populate_recordset(null::locations, ${JSON.stringify(added.map(locationColumns))}::json) r
      left join emails e on e.id = r.email_id
      where (r.email_id is null or e.id is not null) and exists (select from folders f where f.id = r.folder_id)
        and not exists (select from locations l where l.folder_id = r.folder_id and l.uid = r.uid)
        and not exists (
          select from locations l where l.folder_id = r.folder_id and l.email_id = r.email_id
            and ${IS_THERE} and l.pending_removal_since is null)
      on conflict do nothing
      returning folder_id, 1 as by, seen
    )
    update folders f set
      known_count = f.known_count + c.by,
      total_count = greatest(0, f.total_count + c.by),
      unread_count = greatest(0, f.unread_count + c.unread),
      local_revision = f.local_revision + 1
    from (
      select t.folder_id, coalesce(sum(by), 0)::int as by, coalesce(sum(by) filter (where not seen), 0)::int as unread
      from unnest(${sql.param(touched)}::text[]) t (folder_id)
      left join (select * from left_behind union all select * from placed) m on m.folder_id = t.folder_id
      group by t.folder_id
    ) c
    where f.id = c.folder_id`;
});

/**
 * Removes emails from the folders that they were moved from, and from their counters unless that was done already, and
 * places them in others, unless the watch has placed them there, or has found that the email or the folder was deleted.
 * Two messages of one folder are two emails: where the watch has found a copy of another program there in the meantime,
 * the message that this API has put there is left to the next sync pass.
 * Changes of this API are counted in the folders, which invalidates what was read of them before. STATUS corrects the
 * counters by the changes of others.
 */
export async function moveLocations(tx: Tx, changes: LocationChanges): Promise<void> {
  await tx.execute(moved(changes));
}
