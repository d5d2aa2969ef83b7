import { and, eq, isNull } from 'drizzle-orm';
import type { TrackingClickData, TrackingOpenData } from '../contract/tracking.ts';
import type { Db, Queryable, Tx } from './client.ts';
import { inLease, LeaseLost } from './lease.ts';
import { recordEvents } from './outbox.ts';
import { accounts, trackingRecords } from './schema.ts';

/** A sent mail whose opens and clicks are told. */
export interface TrackingRecord {
  /** `trk_…` */
  id: string;
  accountId: string;
  /** the `email_…` id of the sent mail */
  emailId: string;
  /** with its angle brackets */
  messageId: string;
  label: string | null;
  /** whether the mail holds the pixel */
  opens: boolean;
  /** targets of the rewritten links, by their number in the URL; none when links are not tracked */
  links: string[];
  createdAt: Date;
}

/**
 * Saves what is tracked of a mail, before it leaves. Saving it again, as when a send is tried again, replaces what was
 * saved: the mail that leaves is the one that was made last.
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

/** The record of that id; undefined when there is none, or its account is being removed. */
export async function findTracking(db: Queryable, id: string): Promise<TrackingRecord | undefined> {
  const rows = await db
    .select({ record: trackingRecords })
    .from(trackingRecords)
    .innerJoin(accounts, eq(accounts.id, trackingRecords.accountId))
    .where(and(eq(trackingRecords.id, id), isNull(accounts.removedAt)));
  return rows[0]?.record;
}

/** Somebody opened a tracked mail, or followed the link `url` of it. */
export interface Hit {
  date: Date;
  ip: string;
  userAgent: string;
  url?: string;
}

/** Tells a hit by its event; nothing when the record has been erased meanwhile. */
export async function recordHit(db: Db, { accountId, id }: TrackingRecord, hit: Hit): Promise<void> {
  try {
    await inLease(db, { accountId, watchEpoch: null }, async (tx) => {
      const [record] = await tx.select().from(trackingRecords).where(eq(trackingRecords.id, id));
      if (record) await recordEvents(tx, accountId, [hitEvent(record, hit)]);
    });
  } catch (error) {
    if (!(error instanceof LeaseLost)) throw error;
  }
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
