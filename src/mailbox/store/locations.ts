import { and, eq, gte, inArray, isNotNull, isNull, lt, or, sql } from 'drizzle-orm';
import type { Queryable, Tx } from '../../db/client.ts';
import { insertRows } from '../../db/insert-rows.ts';
import { isLeaving } from '../../db/pending-removal.ts';
import { emails, placements } from '../../db/schema.ts';

/** A placement that may be the same message as one that was just seen. */
export type Candidate = Pick<
  typeof placements.$inferSelect,
  'folderId' | 'uid' | 'emailId' | 'identity' | 'weakIdentity' | 'serverId' | 'vanishedAt'
>;

const CANDIDATE = {
  folderId: placements.folderId,
  uid: placements.uid,
  emailId: placements.emailId,
  identity: placements.identity,
  weakIdentity: placements.weakIdentity,
  serverId: placements.serverId,
  // what is being moved away by copying is recognised in its copy as what has left
  vanishedAt: sql<Date | null>`coalesce(${placements.vanishedAt}, case when ${sql.raw(isLeaving('placements'))}
    then ${placements.leavingSince} end)`.mapWith(placements.vanishedAt),
};

/** What a message is recognised by. */
export interface Recognisable {
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
    .select({ uid: placements.uid })
    .from(placements)
    .where(
      and(
        eq(placements.folderId, folderId),
        gte(placements.uid, from),
        lt(placements.uid, to),
        isNull(placements.vanishedAt),
      ),
    )
    .orderBy(placements.uid);
  return rows.map((row) => row.uid);
}

/** Placements anywhere in the account that look like one of these messages. */
export async function findCandidates(db: Queryable, accountId: string, messages: Recognisable[]): Promise<Candidate[]> {
  if (messages.length === 0) return [];
  const serverIds = messages.flatMap((message) => message.serverId ?? []);
  const weak = [...new Set(messages.map((message) => message.weakIdentity))];
  return db
    .select(CANDIDATE)
    .from(placements)
    .where(
      and(
        eq(placements.accountId, accountId),
        serverIds.length > 0
          ? or(inArray(placements.weakIdentity, weak), inArray(placements.serverId, serverIds))
          : inArray(placements.weakIdentity, weak),
      ),
    );
}

/** Of these UIDs, those that have a placement; with `imported`, baseline ones that are still there do not count. */
export async function placedUids(
  db: Queryable,
  folderId: string,
  uids: number[],
  imported: boolean,
): Promise<Set<number>> {
  if (uids.length === 0) return new Set();
  const rows = await db
    .select({ uid: placements.uid })
    .from(placements)
    .where(
      and(
        eq(placements.folderId, folderId),
        inArray(placements.uid, uids),
        imported ? or(isNotNull(placements.emailId), isNotNull(placements.vanishedAt)) : undefined,
      ),
    );
  return new Set(rows.map((row) => row.uid));
}

/** The placement of a message that lay there before the account connected. */
export function baselinePlacement(
  accountId: string,
  folderId: string,
  { uid, seen, deleted, ...known }: FlagFacts & Recognisable,
) {
  const { identity, weakIdentity, serverId } = known;
  return { folderId, uid, accountId, emailId: null, seen, deleted, identity, weakIdentity, serverId };
}

/** Saves placements. One that is there as baseline gets its email. */
export async function insertPlacements(tx: Tx, rows: (typeof placements.$inferInsert)[]): Promise<void> {
  await insertRows(
    tx,
    placements,
    rows,
    sql`on conflict (folder_id, uid) do update set email_id = excluded.email_id
      where placements.email_id is null and placements.vanished_at is null`,
  );
}

/** Gives placements the date of their emails, by which a folder's list is ordered. */
export async function datePlacements(tx: Tx, folderId: string, uids: number[]): Promise<void> {
  if (uids.length === 0) return;
  await tx
    .update(placements)
    .set({ date: emails.date })
    .from(emails)
    .where(and(eq(placements.folderId, folderId), inArray(placements.uid, uids), eq(emails.id, placements.emailId)));
}

/** Marks UIDs of a folder as vanished. They count as their emails' places until it is known where those went. */
export async function markVanished(tx: Tx, folderId: string, uids: number[], now: Date): Promise<void> {
  if (uids.length === 0) return;
  await tx
    .update(placements)
    .set({ vanishedAt: now })
    .where(and(eq(placements.folderId, folderId), inArray(placements.uid, uids), isNull(placements.vanishedAt)));
}

/** Drops what vanished from where the emails lay before, now that another folder has them. */
export async function forgetVanished(tx: Tx, emailIds: string[]): Promise<void> {
  if (emailIds.length === 0) return;
  await tx.delete(placements).where(and(inArray(placements.emailId, emailIds), isNotNull(placements.vanishedAt)));
}

/** Drops what vanished before `before`: by then it is known where it went, or that it was deleted. */
export async function forgetVanishedBefore(tx: Tx, accountId: string, before: Date): Promise<void> {
  await tx.delete(placements).where(and(eq(placements.accountId, accountId), lt(placements.vanishedAt, before)));
}

/** The emails (not baseline) that these UIDs of a folder are. */
export async function emailsAt(tx: Queryable, folderId: string, uids: number[]): Promise<Map<number, string>> {
  if (uids.length === 0) return new Map();
  const rows = await tx
    .select({ uid: placements.uid, emailId: placements.emailId })
    .from(placements)
    .where(and(eq(placements.folderId, folderId), inArray(placements.uid, uids), isNotNull(placements.emailId)));
  return new Map(rows.map((row) => [row.uid, row.emailId as string]));
}

/** Of these flags, the ones that differ from what is stored. */
export async function changedFlags(tx: Queryable, folderId: string, flags: FlagFacts[]): Promise<ChangedFlags[]> {
  if (flags.length === 0) return [];
  type Row = { uid: string; seen: boolean; deleted: boolean; was_seen: boolean; email_id: string | null };
  const { rows } = await tx.execute<Row>(sql`
    select p.uid, f.seen, f.deleted, p.seen as was_seen, p.email_id
    from json_to_recordset(${JSON.stringify(flags)}::json) as f(uid bigint, seen boolean, deleted boolean)
    join placements p on p.folder_id = ${folderId} and p.uid = f.uid
    where p.vanished_at is null and (p.seen <> f.seen or p.deleted <> f.deleted)`);
  return rows.map((row) => ({
    uid: Number(row.uid),
    seen: row.seen,
    deleted: row.deleted,
    wasSeen: row.was_seen,
    emailId: row.email_id,
  }));
}

/** Stores flags of placements, and on their emails whether they are unread. */
export async function saveFlags(tx: Tx, folderId: string, flags: ChangedFlags[]): Promise<void> {
  for (const flag of flags) {
    await tx
      .update(placements)
      .set({ seen: flag.seen, deleted: flag.deleted })
      .where(and(eq(placements.folderId, folderId), eq(placements.uid, flag.uid)));
    if (flag.emailId && flag.seen !== flag.wasSeen)
      await tx.update(emails).set({ isUnread: !flag.seen }).where(eq(emails.id, flag.emailId));
  }
}

/** Everything that is placed in a folder. */
export function placementsOf(db: Queryable, folderId: string): Promise<Candidate[]> {
  return db.select(CANDIDATE).from(placements).where(eq(placements.folderId, folderId)).orderBy(placements.uid);
}

/**
 * Gives placements of a folder their UIDs under a new UIDVALIDITY. The others keep numbers that no server gives
 * (below zero) and are marked as vanished: they are looked for in other folders like any mail that has gone.
 */
export async function movePlacements(
  tx: Tx,
  folderId: string,
  moves: { from: number; to: number }[],
  now: Date,
): Promise<void> {
  await tx.delete(placements).where(and(eq(placements.folderId, folderId), lt(placements.uid, 0)));
  await tx
    .update(placements)
    .set({ uid: sql`-${placements.uid}` })
    .where(eq(placements.folderId, folderId));
  await tx.execute(sql`
    update placements p set uid = m.to_uid, vanished_at = null
    from json_to_recordset(${JSON.stringify(moves.map(({ from, to }) => ({ from_uid: from, to_uid: to })))}::json)
      as m(from_uid bigint, to_uid bigint)
    where p.folder_id = ${folderId} and p.uid = -m.from_uid`);
  await tx
    .update(placements)
    .set({ vanishedAt: now })
    .where(and(eq(placements.folderId, folderId), lt(placements.uid, 0), isNull(placements.vanishedAt)));
}

/** The emails that lie in a folder. */
export async function emailsIn(tx: Queryable, folderId: string): Promise<string[]> {
  const rows = await tx
    .selectDistinct({ emailId: placements.emailId })
    .from(placements)
    .where(and(eq(placements.folderId, folderId), isNotNull(placements.emailId)));
  return rows.map((row) => row.emailId as string);
}

/**
 * Takes all mail out of a folder that is about to be forgotten: what lies elsewhere too lies there alone from then on, the
 * rest counts as vanished until it is known where it went.
 */
export async function forgetFolder(tx: Tx, folderId: string, now: Date): Promise<void> {
  await tx.execute(sql`
    delete from placements p where p.folder_id = ${folderId} and p.email_id is not null and exists (
      select 1 from placements o where o.email_id = p.email_id and o.folder_id <> p.folder_id and o.vanished_at is null)`);
  await tx
    .update(placements)
    .set({ vanishedAt: now })
    .where(and(eq(placements.folderId, folderId), isNull(placements.vanishedAt)));
}
