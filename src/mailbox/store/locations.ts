import { and, eq, gte, inArray, isNotNull, isNull, lt, or, sql } from 'drizzle-orm';
import type { Queryable, Tx } from '../../db/client.ts';
import { insertRows } from '../../db/insert-rows.ts';
import { isPendingRemoval } from '../../db/pending-removal.ts';
import { emails, locations } from '../../db/schema.ts';

/** A location that may be the same message as one that was just seen. */
export type Candidate = Pick<
  typeof locations.$inferSelect,
  'folderId' | 'uid' | 'emailId' | 'identity' | 'weakIdentity' | 'serverId' | 'vanishedAt'
>;

const CANDIDATE = {
  folderId: locations.folderId,
  uid: locations.uid,
  emailId: locations.emailId,
  identity: locations.identity,
  weakIdentity: locations.weakIdentity,
  serverId: locations.serverId,
  // what is being moved away by copying is recognised in its copy as what has left
  vanishedAt: sql<Date | null>`coalesce(${locations.vanishedAt}, case when ${sql.raw(isPendingRemoval('locations'))}
    then ${locations.pendingRemovalSince} end)`.mapWith(locations.vanishedAt),
};

/** What a message is recognised by. */
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
}

/** Flags that differ from what is stored. */
export interface ChangedFlags extends FlagFacts {
  wasSeen: boolean;
  /** null: baseline mail */
  emailId: string | null;
}

/** UIDs of a folder in [from, to) that are known to be there (or on their way out), ascending. */
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
  const serverIds = messages.flatMap((message) => message.serverId ?? []);
  const weak = [...new Set(messages.map((message) => message.weakIdentity))];
  return db
    .select(CANDIDATE)
    .from(locations)
    .where(
      and(
        eq(locations.accountId, accountId),
        serverIds.length > 0
          ? or(inArray(locations.weakIdentity, weak), inArray(locations.serverId, serverIds))
          : inArray(locations.weakIdentity, weak),
      ),
    );
}

/** Of these UIDs, those that have a location; with `imported`, baseline ones that are still there do not count. */
export async function locatedUids(
  db: Queryable,
  folderId: string,
  uids: number[],
  imported: boolean,
): Promise<Set<number>> {
  if (uids.length === 0) return new Set();
  const rows = await db
    .select({ uid: locations.uid })
    .from(locations)
    .where(
      and(
        eq(locations.folderId, folderId),
        inArray(locations.uid, uids),
        imported ? or(isNotNull(locations.emailId), isNotNull(locations.vanishedAt)) : undefined,
      ),
    );
  return new Set(rows.map((row) => row.uid));
}

/** The location of a message that lay there before the account connected. */
export function baselineLocation(
  accountId: string,
  folderId: string,
  { uid, seen, deleted, ...known }: FlagFacts & MessageIdentity,
) {
  const { identity, weakIdentity, serverId } = known;
  return { folderId, uid, accountId, emailId: null, seen, deleted, identity, weakIdentity, serverId };
}

/** Saves locations. One that is there as baseline gets its email. */
export async function insertLocations(tx: Tx, rows: (typeof locations.$inferInsert)[]): Promise<void> {
  await insertRows(
    tx,
    locations,
    rows,
    sql`on conflict (folder_id, uid) do update set email_id = excluded.email_id
      where locations.email_id is null and locations.vanished_at is null`,
  );
}

/** Gives locations the date of their emails, by which a folder's list is ordered. */
export async function dateLocations(tx: Tx, folderId: string, uids: number[]): Promise<void> {
  if (uids.length === 0) return;
  await tx
    .update(locations)
    .set({ date: emails.date })
    .from(emails)
    .where(and(eq(locations.folderId, folderId), inArray(locations.uid, uids), eq(emails.id, locations.emailId)));
}

/** Marks UIDs of a folder as vanished. They count as their emails' places until it is known where those went. */
export async function markVanished(tx: Tx, folderId: string, uids: number[], now: Date): Promise<void> {
  if (uids.length === 0) return;
  await tx
    .update(locations)
    .set({ vanishedAt: now })
    .where(and(eq(locations.folderId, folderId), inArray(locations.uid, uids), isNull(locations.vanishedAt)));
}

/** Drops what vanished from where the emails lay before, now that another folder has them. */
export async function deleteVanished(tx: Tx, emailIds: string[]): Promise<void> {
  if (emailIds.length === 0) return;
  await tx.delete(locations).where(and(inArray(locations.emailId, emailIds), isNotNull(locations.vanishedAt)));
}

/** Drops what vanished before `before`: by then it is known where it went, or that it was deleted. */
export async function deleteVanishedBefore(tx: Tx, accountId: string, before: Date): Promise<void> {
  await tx.delete(locations).where(and(eq(locations.accountId, accountId), lt(locations.vanishedAt, before)));
}

/** The emails (not baseline) that these UIDs of a folder are. */
export async function emailsAt(tx: Queryable, folderId: string, uids: number[]): Promise<Map<number, string>> {
  if (uids.length === 0) return new Map();
  const rows = await tx
    .select({ uid: locations.uid, emailId: locations.emailId })
    .from(locations)
    .where(and(eq(locations.folderId, folderId), inArray(locations.uid, uids), isNotNull(locations.emailId)));
  return new Map(rows.map((row) => [row.uid, row.emailId as string]));
}

/** Of these flags, the ones that differ from what is stored. */
export async function changedFlags(tx: Queryable, folderId: string, flags: FlagFacts[]): Promise<ChangedFlags[]> {
  if (flags.length === 0) return [];
  type Row = { uid: string; seen: boolean; deleted: boolean; was_seen: boolean; email_id: string | null };
  const { rows } = await tx.execute<Row>(sql`
    select p.uid, f.seen, f.deleted, p.seen as was_seen, p.email_id
    from json_to_recordset(${JSON.stringify(flags)}::json) as f(uid bigint, seen boolean, deleted boolean)
    join locations p on p.folder_id = ${folderId} and p.uid = f.uid
    where p.vanished_at is null and (p.seen <> f.seen or p.deleted <> f.deleted)`);
  return rows.map((row) => ({
    uid: Number(row.uid),
    seen: row.seen,
    deleted: row.deleted,
    wasSeen: row.was_seen,
    emailId: row.email_id,
  }));
}

/** Stores flags of locations, and on their emails whether they are unread. */
export async function saveFlags(tx: Tx, folderId: string, flags: ChangedFlags[]): Promise<void> {
  for (const flag of flags) {
    await tx
      .update(locations)
      .set({ seen: flag.seen, deleted: flag.deleted })
      .where(and(eq(locations.folderId, folderId), eq(locations.uid, flag.uid)));
    if (flag.emailId && flag.seen !== flag.wasSeen)
      await tx.update(emails).set({ isUnread: !flag.seen }).where(eq(emails.id, flag.emailId));
  }
}

/** Everything that is placed in a folder. */
export function locationsIn(db: Queryable, folderId: string): Promise<Candidate[]> {
  return db.select(CANDIDATE).from(locations).where(eq(locations.folderId, folderId)).orderBy(locations.uid);
}

/**
 * Gives locations of a folder their UIDs under a new UIDVALIDITY. The others keep numbers that no server gives
 * (below zero) and are marked as vanished: they are looked for in other folders like any mail that has gone.
 */
export async function renumberLocations(
  tx: Tx,
  folderId: string,
  moves: { from: number; to: number }[],
  now: Date,
): Promise<void> {
  await tx.delete(locations).where(and(eq(locations.folderId, folderId), lt(locations.uid, 0)));
  await tx
    .update(locations)
    .set({ uid: sql`-${locations.uid}` })
    .where(eq(locations.folderId, folderId));
  await tx.execute(sql`
    update locations p set uid = m.to_uid, vanished_at = null
    from json_to_recordset(${JSON.stringify(moves.map(({ from, to }) => ({ from_uid: from, to_uid: to })))}::json)
      as m(from_uid bigint, to_uid bigint)
    where p.folder_id = ${folderId} and p.uid = -m.from_uid`);
  await tx
    .update(locations)
    .set({ vanishedAt: now })
    .where(and(eq(locations.folderId, folderId), lt(locations.uid, 0), isNull(locations.vanishedAt)));
}

/** The emails that lie in a folder. */
export async function emailsIn(tx: Queryable, folderId: string): Promise<string[]> {
  const rows = await tx
    .selectDistinct({ emailId: locations.emailId })
    .from(locations)
    .where(and(eq(locations.folderId, folderId), isNotNull(locations.emailId)));
  return rows.map((row) => row.emailId as string);
}

/**
 * Takes all mail out of a folder that is about to be forgotten: what lies elsewhere too lies there alone from then on, the
 * rest counts as vanished until it is known where it went.
 */
export async function vacateFolder(tx: Tx, folderId: string, now: Date): Promise<void> {
  await tx.execute(sql`
    delete from locations p where p.folder_id = ${folderId} and p.email_id is not null and exists (
      select 1 from locations o where o.email_id = p.email_id and o.folder_id <> p.folder_id and o.vanished_at is null)`);
  await tx
    .update(locations)
    .set({ vanishedAt: now })
    .where(and(eq(locations.folderId, folderId), isNull(locations.vanishedAt)));
}
