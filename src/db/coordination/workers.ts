import { eq, sql } from 'drizzle-orm';
import type { Db } from '../driver/client.ts';
import { workers } from '../schema/index.ts';

/** A worker that has been silent for so long counts as dead, ms. */
export const SILENT_MS = 4_000;
const silent = sql`make_interval(secs => ${SILENT_MS / 1000})`;
/** An announcement of later is of a worker that ended before the clock of the database was set back. */
const isLive = sql<boolean>`${workers.seenAt} between now() - ${silent} and now() + ${silent}`;

/** Announces a live worker process, and how many mailboxes it watches. */
export async function announceWorker(db: Db, id: string, watches: number): Promise<void> {
  await db
    .insert(workers)
    .values({ id, seenAt: sql`now()`, watches })
    .onConflictDoUpdate({ target: workers.id, set: { seenAt: sql`now()`, watches } });
}

/** A worker that takes work. */
export interface LiveWorker {
  id: string;
  /** mailboxes that it watches */
  watches: number;
  /** time since its start, ms */
  ageMs: number;
}

/** The workers that take work, according to the database. */
export async function liveWorkers(db: Db): Promise<LiveWorker[]> {
  const { id, watches, startedAt } = workers;
  const ageMs = sql<number>`extract(epoch from now() - ${startedAt})::float8 * 1000`;
  return db.select({ id, watches, ageMs }).from(workers).where(isLive);
}

/** When each worker announced itself last; those silent for hours may be missing. */
export async function lastAnnouncements(db: Db): Promise<{ id: string; seenAt: Date }[]> {
  return db.select({ id: workers.id, seenAt: workers.seenAt }).from(workers);
}

/** Deletes the rows of workers that were killed. */
export async function forgetDeadWorkers(db: Db): Promise<void> {
  await db
    .delete(workers)
    .where(sql`${workers.seenAt} not between now() - interval '1 hour' and now() + interval '1 hour'`);
}

/** Deletes the row of a worker process that exits. */
export async function forgetWorker(db: Db, id: string): Promise<void> {
  await db.delete(workers).where(eq(workers.id, id));
}

/** Whether any worker takes work, according to the database. */
export async function hasWorker(db: Db): Promise<boolean> {
  const [row] = await db.select({ found: sql<boolean>`bool_or(${isLive})` }).from(workers);
  return row?.found ?? false;
}
