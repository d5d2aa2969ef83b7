import { and, eq, getTableColumns, isNull, sql } from 'drizzle-orm';
import type { TrackingClickData, TrackingOpenData } from '../../contract/tracking.ts';
import type { Db, Queryable, Tx } from '../driver/client.ts';
import { getInstallationValue, setInstallationValue } from '../coordination/installation.ts';
import { inLease, LeaseLost } from '../coordination/lease.ts';
import { recordEvents } from '../outbox.ts';
import { accounts, trackingRecords } from '../schema/index.ts';

/** A sent email whose opens and clicks are reported. */
export interface TrackingRecord {
  /** `trk_…` */
  id: string;
  accountId: string;
  /** the `email_…` id of the sent email */
  emailId: string;
  /** with angle brackets */
  messageId: string;
  label: string | null;
  /** whether the message holds the pixel */
  opens: boolean;
  /** targets of the rewritten links, by their number in the URL; empty when links are not tracked */
  links: string[];
  createdAt: Date;
}

const { hitMinute: _, hitsInMinute: __, ...COLUMNS } = getTableColumns(trackingRecords);

/**
 * Saves what is tracked of a message, before it is submitted. A further attempt of the send replaces it: the message
 * composed last is the one submitted.
 */
export async function saveTrackingRecord(tx: Tx, record: TrackingRecord): Promise<void> {
  const { emailId, messageId, label, opens, links } = record;
  await tx
    .insert(trackingRecords)
    .values(record)
    .onConflictDoUpdate({
      target: trackingRecords.id,
      set: { emailId, messageId, label, opens, links },
      setWhere: eq(trackingRecords.accountId, record.accountId),
    });
}

/** Finds a record; undefined when it does not exist or its account is being removed. */
export async function findTracking(db: Queryable, id: string): Promise<TrackingRecord | undefined> {
  const rows = await db
    .select(COLUMNS)
    .from(trackingRecords)
    .innerJoin(accounts, eq(accounts.id, trackingRecords.accountId))
    .where(and(eq(trackingRecords.id, id), isNull(accounts.removedAt)));
  return rows[0];
}

/** A recipient opened a tracked email, or followed its link `url`. */
export interface Hit {
  date: Date;
  ip: string;
  userAgent: string;
  url?: string;
}

/**
 * Hits of one record in one minute that become events: anyone who knows a pixel's URL can fetch it any number of times.
 */
export const REPORTED_PER_MINUTE = 60;

/**
 * Reports a hit by its event; nothing when the record was deleted. Hits above REPORTED_PER_MINUTE are
 * counted in the record and cause neither an event nor a lock of the account.
 */
export async function recordHit(db: Db, { accountId, id }: TrackingRecord, hit: Hit): Promise<void> {
  if ((await countHit(db, id, hit.date)) > REPORTED_PER_MINUTE) return;
  try {
    await inLease(db, { accountId, watchEpoch: null }, async (tx) => {
      const [record] = await tx.select(COLUMNS).from(trackingRecords).where(eq(trackingRecords.id, id));
      if (record) await recordEvents(tx, accountId, [hitEvent(record, hit)]);
    });
  } catch (error) {
    if (!(error instanceof LeaseLost)) throw error;
  }
}

/**
 * Counts the hits of a record in the minute of `date`, including this one. Clocks that are behind count into the latest
 * minute.
 */
async function countHit(db: Db, id: string, date: Date): Promise<number> {
  const minute = sql`date_trunc('minute', ${date.toISOString()}::timestamptz)`;
  const { rows } = await db.execute<{ hits: number }>(sql`
    update tracking_records set hit_minute = greatest(hit_minute, ${minute}),
      hits_in_minute = case when hit_minute >= ${minute} then hits_in_minute + 1 else 1 end
    where id = ${id} returning hits_in_minute as hits`);
  return rows[0]?.hits ?? 0;
}

/** Records of one statement: it takes about a second where nothing is cached. */
const LOOKED_AT = 10_000;
/** Between the begins of two walks that take more than one statement. */
const WALK_MS = 24 * 60 * 60_000;
/** The name of the value with the progress of the walk. */
const WALK = 'unused_tracking';

/** Before the oldest record. */
const FIRST = { at: '-infinity', id: '' };

/** A walk through all old records: most stay, so that a search from the first one would take longer each time. */
interface Walk {
  /** when it began, ms */
  began: number;
  /** the last record that was looked at; null: it has ended */
  after: { at: string; id: string } | null;
}

/**
 * Deletes records from before `before` whose email no longer exists and whose send has ended; their links then stop
 * working. Each call looks at the next 10,000; after the last ones it begins with the oldest again, once a day where there are more.
 * @returns how many it looked at; 0: these were the last ones, or all have been looked at today
 */
export async function deleteUnusedTracking(db: Db, before: Date): Promise<number> {
  const { began, after } = await walkOf(db);
  if (after === null) return 0;
  const { rows } = await db.execute<{ count: number; at: string; id: string }>(sql`
    with old as materialized (
      select id, email_id, created_at from tracking_records
      where created_at < ${before.toISOString()}::timestamptz and (created_at, id) > (${after.at}::timestamptz, ${after.id})
      order by created_at, id limit ${LOOKED_AT}
    ), unused as (
      delete from tracking_records where id = any(array(
        select id from old
        where not exists (select from emails e where e.id = old.email_id)
          and not exists (select from sends s where s.id = old.email_id)))
    )
    select (select count(*)::int from old) as count, created_at::text as at, id from old
    order by created_at desc, id desc limit 1`);
  const [last] = rows;
  const isLast = !last || last.count < LOOKED_AT;
  if (isLast && after.at === FIRST.at) return 0;
  const walk: Walk = { began, after: isLast ? null : { at: last.at, id: last.id } };
  await setInstallationValue(db, WALK, JSON.stringify(walk));
  return isLast ? 0 : last.count;
}

async function walkOf(db: Db): Promise<Walk> {
  const stored = await getInstallationValue(db, WALK);
  const walk = stored === undefined ? undefined : (JSON.parse(stored) as Walk);
  const isOver = walk === undefined || (walk.after === null && Math.abs(Date.now() - walk.began) >= WALK_MS);
  return isOver ? { began: Date.now(), after: FIRST } : walk;
}

function hitEvent({ id, label, messageId, emailId }: TrackingRecord, { date, ip, userAgent, url }: Hit) {
  const data: TrackingOpenData = {
    tracking_id: id,
    label,
    message_id: messageId,
    email_id: emailId,
    date: date.toISOString(),
    ip,
    user_agent: userAgent,
  };
  const event = { objectId: emailId, createdAt: date };
  if (url === undefined) return { ...event, type: 'tracking.open' as const, data };
  const click: TrackingClickData = { ...data, url };
  return { ...event, type: 'tracking.click' as const, data: click };
}
