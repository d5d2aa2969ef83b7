import { statement } from '../../db/driver/statement.ts';
import { and, desc, eq, gte, isNotNull, isNull, lt, or, type SQL, sql } from 'drizzle-orm';
import type { Queryable, Tx } from '../../db/driver/client.ts';
import { anyOf } from '../../db/driver/any-of.ts';
import { isBeingMoved, isPendingRemoval } from '../../db/queries/pending-removal.ts';
import { emails, locations } from '../../db/schema/index.ts';
import type { Writer, Writes } from '../../db/driver/writes.ts';
import { LOCATED, type StoredState } from './email-states.ts';

/** A location to be saved. */
export type NewLocation = Pick<
  typeof locations.$inferSelect,
  'folderId' | 'uid' | 'accountId' | 'emailId' | 'seen' | 'flags' | 'identity' | 'weakIdentity' | 'serverId'
> & {
  deleted?: boolean;
  /** of its email, or of the email that `retention_days` has deleted; left out: see dateLocations */
  date?: Date;
};

/** A location that may be the same message as one that was just seen. */
export type Candidate = Pick<
  typeof locations.$inferSelect,
  'folderId' | 'uid' | 'emailId' | 'date' | 'identity' | 'weakIdentity' | 'serverId' | 'vanishedAt'
>;

const CANDIDATE = {
  folderId: locations.folderId,
  uid: locations.uid,
  emailId: locations.emailId,
  date: locations.date,
  identity: locations.identity,
  weakIdentity: locations.weakIdentity,
  serverId: locations.serverId,
  // What is being moved away by copying is recognised in its copy as what has left; so is the mail of a folder that is
  // being vacated, before its turn has come.
  vanishedAt: sql<Date | null>`coalesce(${locations.vanishedAt},
    case when ${sql.raw(isPendingRemoval('locations'))} then ${locations.pendingRemovalSince} end,
    (select now() from folders f where f.id = ${locations.folderId} and f.vacating is not null))`.mapWith(
    locations.vanishedAt,
  ),
};

/**
 * Runs the statement `changed`, which returns `folder_id, by` of each location: 1 for one that is live from now on, -1 for
 * one that no longer is. Counts them in the folders' rows. Statements that follow may read from `changed`.
 */
export function counted(changed: SQL): SQL {
  return sql`with changed as (${changed}), counted as (
    update folders f set known_count = f.known_count + c.by
    from (select folder_id, sum(by)::int as by from changed group by folder_id) c
    where f.id = c.folder_id and c.by <> 0)`;
}

/** The properties by which a message is recognised. */
export interface MessageIdentity {
  identity: string;
  weakIdentity: string;
  serverId: string | null;
}

/** Flags of one UID as the server has them now. */
export interface FlagFacts {
  uid: number;
  seen: boolean;
  deleted: boolean;
  /** see src/contract/flags.ts */
  flags: string[];
}

/** Flags of one UID as far as the server has sent them; a flag that is left out keeps its stored value. */
export type ReadFlags = Omit<FlagFacts, 'deleted'> & { deleted?: boolean };

/** Flags of one UID of any folder, as far as the server has sent them. */
export interface LocationFlags extends ReadFlags {
  folderId: string;
}

/** Flags that differ from what is stored. */
export interface ChangedFlags extends FlagFacts {
  folderId: string;
  wasSeen: boolean;
}

/** UIDs of a folder in [from, to) that are known to be there (or are pending removal), ascending. */
export async function knownUids(db: Queryable, folderId: string, from: number, to: number): Promise<number[]> {
  const rows = await db
    .select({ uid: locations.uid })
    .from(locations)
    .where(
      and(
        eq(locations.folderId, folderId),
        gte(locations.uid, from),
        lt(locations.uid, to),
        isNull(locations.vanishedAt),
      ),
    )
    .orderBy(locations.uid);
  return rows.map((row) => row.uid);
}

/** Locations anywhere in the account that look like one of these messages. */
export async function findCandidates(
  db: Queryable,
  accountId: string,
  messages: MessageIdentity[],
): Promise<Candidate[]> {
  if (messages.length === 0) return [];
  return db
    .select(CANDIDATE)
    .from(locations)
    .where(and(eq(locations.accountId, accountId), looksLike(messages)));
}

/** `findCandidates` as a JSON array: a part of a statement, whose value `readCandidates` reads. */
export function candidatesLike(accountId: string, messages: MessageIdentity[]): SQL {
  const { folderId, uid, emailId, date, identity, weakIdentity, serverId, vanishedAt } = CANDIDATE;
  return sql`(
    select coalesce(json_agg(json_build_object(
      'folderId', ${folderId}, 'uid', ${uid}, 'emailId', ${emailId}, 'date', ${date}, 'identity', ${identity},
      'weakIdentity', ${weakIdentity}, 'serverId', ${serverId}, 'vanishedAt', ${vanishedAt})), '[]')
    from locations where ${locations.accountId} = ${accountId} and (${looksLike(messages)}))`;
}

/** A value of candidatesLike. */
export function readCandidates(value: CandidateText[]): Candidate[] {
  const dateOf = (text: string | null) => (text === null ? null : new Date(text));
  return value.map((candidate) => ({
    ...candidate,
    date: dateOf(candidate.date),
    vanishedAt: dateOf(candidate.vanishedAt),
  }));
}

type CandidateText = Omit<Candidate, 'date' | 'vanishedAt'> & { date: string | null; vanishedAt: string | null };

/** `isPending`: a move of this service was taking the email out of the folder. */
export type FreedCandidate = Candidate & { isPending: boolean };

/** Locations below zero in a folder that look like one of these messages and whose email has no UID in it yet. */
export async function findFreedCandidates(
  db: Queryable,
  { id, accountId }: { id: string; accountId: string },
  messages: MessageIdentity[],
): Promise<FreedCandidate[]> {
  if (messages.length === 0) return [];
  const isPending = sql<boolean>`${sql.raw(isPendingRemoval('locations'))}`;
  return db
    .select({ ...CANDIDATE, vanishedAt: locations.vanishedAt, isPending })
    .from(locations)
    .where(
      and(
        eq(locations.accountId, accountId),
        looksLike(messages),
        // Hidden from the planner: old statistics claim that few numbers are below zero, and all would be read.
        sql`${locations.folderId} || '' = ${id} and ${locations.uid} + 0 < 0`,
        // a scalar subquery, so that it is looked up for each candidate and never joined with all of the folder
        sql`(select true from locations n where n.email_id = ${locations.emailId}
          and n.folder_id = ${locations.folderId} and n.uid > 0 limit 1) is null`,
      ),
    );
}

function looksLike(messages: MessageIdentity[]): SQL | undefined {
  const serverIds = messages.flatMap((message) => message.serverId ?? []);
  const weak = anyOf(locations.weakIdentity, [...new Set(messages.map((message) => message.weakIdentity))]);
  return serverIds.length > 0 ? or(weak, anyOf(locations.serverId, serverIds)) : weak;
}

/** Of these UIDs, those that have a location; with `imported`, baseline ones that are still there do not count. */
export async function locatedUids(
  db: Queryable,
  folderId: string,
  uids: number[],
  imported: boolean,
): Promise<Set<number>> {
  if (uids.length === 0) return new Set();
  const { rows } = await db.execute<{ uids: number[] }>(sql`select ${locatedOf(folderId, uids, imported)} as uids`);
  return new Set(rows[0]?.uids);
}

/** `locatedUids` as a JSON array: a part of a statement. */
export function locatedOf(folderId: string, uids: number[], imported: boolean): SQL {
  const counts = imported ? sql`and (email_id is not null or vanished_at is not null)` : sql``;
  return sql`(
    select coalesce(json_agg(uid), '[]') from locations
    where folder_id = ${folderId} and ${anyOf(locations.uid, uids)} ${counts})`;
}

/** The location of a message that was in the folder before the account connected. */
export function baselineLocation(
  accountId: string,
  folderId: string,
  { uid, seen, deleted, flags, identity, weakIdentity, serverId }: FlagFacts & MessageIdentity,
) {
  return { folderId, uid, accountId, emailId: null, seen, deleted, flags, identity, weakIdentity, serverId };
}

/** Columns that a new location has values for. */
const COLUMNS = sql.raw(
  'folder_id, uid, account_id, email_id, seen, deleted, flags, identity, weak_identity, server_id, date',
);

/** A location as the columns of its row, for json_populate_recordset. */
export function locationColumns(row: NewLocation) {
  return {
    folder_id: row.folderId,
    uid: row.uid,
    account_id: row.accountId,
    email_id: row.emailId,
    seen: row.seen,
    deleted: row.deleted ?? false,
    flags: row.flags,
    identity: row.identity,
    weak_identity: row.weakIdentity,
    server_id: row.serverId,
    date: row.date ?? null,
  };
}

/** Bounds one statement. */
const ROWS_PER_STATEMENT = 2_000;

/** Saves locations, of folders that are stored still. One that is there as baseline gets its email. */
export async function insertLocations(tx: Tx, rows: NewLocation[]): Promise<void> {
  for (let start = 0; start < rows.length; start += ROWS_PER_STATEMENT) {
    await tx.execute(sql`${counted(insertion(rows.slice(start, start + ROWS_PER_STATEMENT)))} select`);
  }
}

/**
 * Defers saving locations of one folder, which is still stored, to `writes`. The result has the number of those that were
 * inserted, for the statement that changes the folder's row.
 */
export function writeLocations(writes: Writes, rows: NewLocation[]): SQL {
  if (rows.length === 0) return sql`0`;
  writes.add('changed_locations', insertion(rows), { table: locations });
  return sql`(select coalesce(sum(by), 0)::int from changed_locations)`;
}

/** Returns `folder_id, by`, see `counted`. */
function insertion(rows: NewLocation[]): SQL {
  // xmax is 0 in a row that was inserted, and not in one that was there
  return sql`
    insert into locations (${COLUMNS})
      select ${COLUMNS} from json_populate_recordset(null::locations, ${JSON.stringify(rows.map(locationColumns))}::json) r
      where exists (select from folders f where f.id = r.folder_id)
    on conflict (folder_id, uid) do update set email_id = excluded.email_id, date = excluded.date,
      flags = coalesce(locations.flags, excluded.flags)
      where locations.email_id is null and locations.vanished_at is null
    returning folder_id, (xmax = 0)::int as by`;
}

/** Gives locations the date of their emails, by which a folder's list is ordered. */
export async function dateLocations(tx: Tx, folderId: string, uids: number[]): Promise<void> {
  if (uids.length === 0) return;
  await tx
    .update(locations)
    .set({ date: emails.date })
    .from(emails)
    .where(and(eq(locations.folderId, folderId), anyOf(locations.uid, uids), eq(emails.id, locations.emailId)));
}

/** Leaves the locations of these emails, as those of messages from before the connect, with the date of the email. */
export async function forgetEmailsOf(tx: Tx, emailIds: string[]): Promise<void> {
  await tx.update(locations).set({ emailId: null }).where(anyOf(locations.emailId, emailIds));
}

/** Deletes all locations of emails that are deleted. */
export async function deleteLocationsOf(tx: Tx, emailIds: string[]): Promise<void> {
  const remove = sql`
    delete from locations where ${anyOf(locations.emailId, emailIds)}
    returning folder_id, case when vanished_at is null then -1 else 0 end as by`;
  await tx.execute(sql`${counted(remove)} select`);
}

/** The emails (not baseline) that these UIDs of a folder belong to. */
export async function emailsAt(tx: Queryable, folderId: string, uids: number[]): Promise<Map<number, string>> {
  if (uids.length === 0) return new Map();
  const rows = await tx
    .select({ uid: locations.uid, emailId: locations.emailId })
    .from(locations)
    .where(and(eq(locations.folderId, folderId), anyOf(locations.uid, uids), isNotNull(locations.emailId)));
  return new Map(rows.map((row) => [row.uid, row.emailId as string]));
}

const differingFlags = statement(
  'changed_flags',
  (folderId: string, flags: ReadFlags[]) => sql`
    select p.uid from json_to_recordset(${JSON.stringify(flags)}::json) as f(uid bigint, seen boolean, deleted boolean, flags text[])
    join locations p on p.folder_id = ${folderId} and p.uid = f.uid
    where p.vanished_at is null and ${DIFFERS}`,
);

/** Of these flags of a folder, the UIDs of those that differ from what is stored. */
export async function changedFlags(db: Queryable, folderId: string, flags: ReadFlags[]): Promise<number[]> {
  if (flags.length === 0) return [];
  const { rows } = await db.execute<{ uid: string }>(differingFlags(folderId, flags));
  return rows.map(({ uid }) => Number(uid));
}

const DIFFERS = sql.raw(
  '(p.seen <> f.seen or p.deleted <> coalesce(f.deleted, p.deleted) or p.flags is distinct from f.flags)',
);

/** The result of comparing flags with the store. */
export interface FlagComparison {
  changed: ChangedFlags[];
  /** emails, baseline left out, where flags change */
  emails: StoredState[];
  /** flags of UIDs that are not stored */
  notStored: LocationFlags[];
  /** flags of messages that a call moves elsewhere now */
  beingMoved: LocationFlags[];
}

const comparedFlags = statement(
  'compare_flags',
  (given: object[]) => sql`
    with found as materialized (
      select p.folder_id, p.uid, f.seen, coalesce(f.deleted, p.deleted) as deleted, f.flags, p.seen as was_seen, p.email_id,
        ${DIFFERS} as differs, ${sql.raw(isBeingMoved('p'))} as moved
      from json_to_recordset(${JSON.stringify(given)}::json)
        as f(folder_id text, uid bigint, seen boolean, deleted boolean, flags text[])
      join locations p on p.folder_id = f.folder_id and p.uid = f.uid
      where p.vanished_at is null
    )
    select (
      select coalesce(json_agg(json_build_object('folderId', folder_id, 'uid', uid, 'seen', seen, 'deleted', deleted,
        'flags', flags, 'wasSeen', was_seen, 'differs', differs, 'moved', moved)), '[]') from found
    ) as found, (
      select coalesce(json_agg(${LOCATED}), '[]') from emails e where e.id = any(array(
        select email_id from found where differs))
    ) as emails`,
);

/** Compares flags with what is stored. */
export async function compareFlags(tx: Tx, flags: LocationFlags[]): Promise<FlagComparison> {
  const given = flags.map(({ folderId, ...rest }) => ({ folder_id: folderId, ...rest }));
  type Found = ChangedFlags & { differs: boolean; moved: boolean };
  const { rows } = await tx.execute<{ found: Found[]; emails: StoredState[] }>(comparedFlags(given));
  const { found, emails } = rows[0] as { found: Found[]; emails: StoredState[] };
  const keyOf = ({ folderId, uid }: { folderId: string; uid: number }) => `${folderId} ${uid}`;
  const there = new Map(found.map((each) => [keyOf(each), each]));
  return {
    changed: found.filter(({ differs }) => differs),
    emails,
    notStored: flags.filter((flag) => !there.has(keyOf(flag))),
    beingMoved: flags.filter((flag) => there.get(keyOf(flag))?.moved),
  };
}

/** Stores flags of locations. */
export async function saveFlags(writes: Writer, flags: ChangedFlags[]): Promise<void> {
  if (flags.length === 0) return;
  const rows = flags.map(({ folderId, uid, seen, deleted, flags: names }) => ({
    ...{ folder_id: folderId, uid, seen, deleted, flags: names },
  }));
  await writes.execute(
    sql`
    update locations p set seen = f.seen, deleted = f.deleted, flags = f.flags
    from json_to_recordset(${JSON.stringify(rows)}::json)
      as f(folder_id text, uid bigint, seen boolean, deleted boolean, flags text[])
    where p.folder_id = f.folder_id and p.uid = f.uid`,
    { table: locations },
  );
}

/** The locations that these UIDs of a folder are, vanished ones left out. */
export async function locationsAt(db: Queryable, folderId: string, uids: number[]): Promise<Candidate[]> {
  if (uids.length === 0) return [];
  return db
    .select(CANDIDATE)
    .from(locations)
    .where(and(eq(locations.folderId, folderId), anyOf(locations.uid, uids), isNull(locations.vanishedAt)));
}

/** The newest messages that are known to be in a folder, highest UID first. */
export function newestLocations(db: Queryable, folderId: string, limit: number): Promise<Candidate[]> {
  return db
    .select(CANDIDATE)
    .from(locations)
    .where(and(eq(locations.folderId, folderId), isNull(locations.vanishedAt)))
    .orderBy(desc(locations.uid))
    .limit(limit);
}
