import { sql } from 'drizzle-orm';
import type { ReplayFilter, ReplayStatus } from '../../contract/runs/replay.ts';
import type { Db, Tx } from '../../db/driver/client.ts';
import { DELIVERIES_CHANNEL } from '../../db/outbox.ts';
import { isReplayed, type ReplayScope } from '../../db/queries/replays.ts';
import { takesCalls } from './pending.ts';
import { cancelReplay, endReplay, queueDeliveries, saveQueued } from './replay-state.ts';

/*
 * Deliveries of a replay are queued in the order in which they were recorded, a few at a time: a live event of the same
 * object waits at most for the replayed ones that are queued. Those that an earlier delivery of their object holds back for
 * long do not count: the replay continues with others. An object with PER_OBJECT of them is passed over from there on, and
 * catches up as they end. Cursors move in the same transaction, so none is queued twice.
 */

/** Deliveries of one object that are held back before it is passed over, and that are queued at a time when it catches up: as many as fit in one run. */
const PER_OBJECT = 50;
/** Objects that are passed over at most; with more the replay waits, since their cursors are read and written in each step. */
const OBJECTS_BEHIND = 100;
/** Queued deliveries without an attempt, held ones included: a bound for the queue, and for what a cancellation puts back. */
const MOST_QUEUED = 5_000;
/** Deliveries that one step reads: some are passed over. */
const WINDOW = 1_000;

/**
 * Whether an earlier delivery of its object holds the pending delivery `p` back for long: behind one that is in a run it is put
 * off for a second only.
 */
const IS_HELD = sql`(coalesce(p.waits_for, '') = 'order' and p.due_at > now() + interval '1 second')`;

/** The result of one step of a replay. */
export interface ReplayStep {
  status: ReplayStatus;
  /** deliveries that it has queued */
  queued: number;
  /** queued deliveries without an attempt that are not held back, those of this step included */
  waiting: number;
}

interface StoredReplay extends ReplayScope {
  status: ReplayStatus;
  takesCalls: boolean;
  cursor: string | null;
  /** objects that are passed over, each with the place that it has reached */
  behind: Record<string, string>;
  queuedAll: boolean;
}

/**
 * Queues the next deliveries of a replay, so that at most `atOnce` of it wait for their first attempt, besides those that are
 * held back. Completes it when all are queued and none is pending, and cancels it when its endpoint was disabled or deleted. A
 * replay that is not stored counts as cancelled.
 */
export async function queueReplayed(db: Db, replayId: string, atOnce: number): Promise<ReplayStep> {
  const step = await db.transaction(async (tx): Promise<ReplayStep | undefined> => {
    const replay = await lockReplay(tx, replayId);
    if (replay?.status !== 'running') return { status: replay?.status ?? 'cancelled', queued: 0, waiting: 0 };
    const { pending, waiting, unattempted } = await countPending(tx, replayId, atOnce);
    if (replay.queuedAll && pending === 0) {
      await endReplay(tx, replayId, 'completed');
      return { status: 'completed', queued: 0, waiting };
    }
    if (!replay.takesCalls) return undefined;
    const room = Math.min(atOnce - waiting, MOST_QUEUED - unattempted);
    const queued = replay.queuedAll || room <= 0 ? 0 : await new QueueStep(tx, replay, room).run();
    return { status: 'running', queued, waiting: waiting + queued };
  });
  if (step) return step;
  await cancelReplay(db, replayId);
  return { status: 'cancelled', queued: 0, waiting: 0 };
}

async function lockReplay(tx: Tx, id: string): Promise<StoredReplay | undefined> {
  const { rows } = await tx.execute<{
    endpoint_id: string;
    filter: ReplayFilter;
    status: ReplayStatus;
    takes_calls: boolean;
    cursor: string | null;
    behind: Record<string, string>;
    queued_all: boolean;
    created_at: string;
  }>(sql`
    select endpoint_id, filter, status, ${takesCalls(sql`r`)} as takes_calls, cursor, behind,
      queued_all_at is not null as queued_all, created_at
    from replays r where id = ${id} for update`);
  const row = rows[0];
  if (!row) return undefined;
  const { endpoint_id: endpointId, filter, status, cursor, behind } = row;
  return {
    ...{ id, endpointId, filter, status, cursor, behind },
    ...{ takesCalls: row.takes_calls, queuedAll: row.queued_all, createdAt: new Date(row.created_at) },
  };
}

interface Pending extends Record<string, unknown> {
  /** whether any is pending */
  pending: number;
  /** without an attempt and not held back, up to `atOnce` */
  waiting: number;
  /** without an attempt */
  unattempted: number;
}

async function countPending(tx: Tx, id: string, atOnce: number): Promise<Pending> {
  const { rows } = await tx.execute<Pending>(sql`
    select (select count(*)::int from (
        select from pending_deliveries p where p.replay_id = ${id} limit 1
      ) p) as pending,
      (select count(*)::int from (
        select from pending_deliveries p
        where p.replay_id = ${id} and not ${IS_HELD} and not p.attempted limit ${atOnce}
      ) w) as waiting,
      (select count(*)::int from (
        select from pending_deliveries p where p.replay_id = ${id} and not p.attempted limit ${MOST_QUEUED}
      ) u) as unattempted`);
  return rows[0] ?? { pending: 0, waiting: 0, unattempted: 0 };
}

interface NextRow extends Record<string, unknown> {
  id: string;
  object_id: string;
  created_at: string;
  account_id: string;
  sequence: string;
}

/** One step of a replay that has room for more. */
class QueueStep {
  readonly #tx: Tx;
  readonly #replay: StoredReplay;
  readonly #behind: Map<string, string>;
  #cursor: string | null;
  #room: number;
  #queued = 0;

  constructor(tx: Tx, replay: StoredReplay, room: number) {
    this.#tx = tx;
    this.#replay = replay;
    this.#behind = new Map(Object.entries(replay.behind));
    this.#cursor = replay.cursor;
    this.#room = room;
  }

  /** Resolves with how many it has queued. */
  async run(): Promise<number> {
    const held = await this.#heldByObject();
    const isFull = !this.#passOver(held);
    for (const objectId of [...this.#behind.keys()]) {
      if ((held.get(objectId) ?? 0) < PER_OBJECT) await this.#catchUp(objectId);
    }
    const isAtEnd = !isFull && this.#room > 0 && (await this.#advance());
    await this.#save(isAtEnd && this.#behind.size === 0);
    return this.#queued;
  }

  async #heldByObject(): Promise<Map<string, number>> {
    const { rows } = await this.#tx.execute<{ object_id: string; count: number }>(sql`
      select p.object_id, count(*)::int as count from pending_deliveries p
      where p.replay_id = ${this.#replay.id} and ${IS_HELD} group by p.object_id`);
    return new Map(rows.map((row) => [row.object_id, row.count]));
  }

  /** Marks objects that are passed over from the cursor on. Returns false when they are too many. */
  #passOver(held: ReadonlyMap<string, number>): boolean {
    for (const [objectId, count] of held) {
      if (count < PER_OBJECT || this.#behind.has(objectId) || this.#cursor === null) continue;
      if (this.#behind.size >= OBJECTS_BEHIND) return false;
      this.#behind.set(objectId, this.#cursor);
    }
    return true;
  }

  /** Queues the next ones of an object that was passed over, up to the cursor. */
  async #catchUp(objectId: string): Promise<void> {
    const room = Math.min(PER_OBJECT, this.#room);
    if (room <= 0) return;
    const rows = await this.#next(
      sql`d.object_id = ${objectId} and ${after(this.#behind.get(objectId) ?? null)} and ${upTo(this.#cursor)}`,
      room,
    );
    await this.#queue(rows);
    const last = rows.at(-1);
    if (last && rows.length === room) this.#behind.set(objectId, placeOf(last));
    else this.#behind.delete(objectId);
  }

  /** Queues deliveries after the cursor, except those of objects that are passed over. Resolves with whether none was left. */
  async #advance(): Promise<boolean> {
    const window = await this.#next(after(this.#cursor), WINDOW);
    const taken: NextRow[] = [];
    for (const row of window) {
      const isPassedOver = this.#behind.has(row.object_id);
      if (!isPassedOver && taken.length >= this.#room) break;
      if (!isPassedOver) taken.push(row);
      this.#cursor = placeOf(row);
    }
    await this.#queue(taken);
    return window.length === 0;
  }

  async #next(condition: ReturnType<typeof sql>, limit: number): Promise<NextRow[]> {
    const { rows } = await this.#tx.execute<NextRow>(sql`
      select d.id, d.object_id, d.created_at, d.account_id, d.sequence from deliveries d
      where ${isReplayed(this.#replay)} and ${condition}
      order by d.created_at, d.account_id, d.sequence, d.id limit ${limit}`);
    return rows;
  }

  async #queue(rows: readonly NextRow[]): Promise<void> {
    if (rows.length === 0) return;
    await queueDeliveries(
      this.#tx,
      this.#replay,
      rows.map(({ id }) => id),
    );
    this.#queued += rows.length;
    this.#room -= rows.length;
  }

  async #save(isQueuedAll: boolean): Promise<void> {
    const behind = Object.fromEntries(this.#behind);
    await saveQueued(this.#tx, this.#replay.id, { cursor: this.#cursor, behind, isQueuedAll });
    if (this.#queued > 0) await this.#tx.execute(sql`select pg_notify(${DELIVERIES_CHANNEL}, '')`);
  }
}

/** The place of a delivery in the order of a replay. */
function placeOf({ created_at: at, account_id: accountId, sequence, id }: NextRow): string {
  return [new Date(at).toISOString(), accountId, sequence, id].join('|');
}

const PLACE = sql`(d.created_at, d.account_id, d.sequence, d.id)`;

function after(place: string | null) {
  if (place === null) return sql`true`;
  return sql`d.created_at >= ${place.split('|')[0]}::timestamptz and ${PLACE} > ${rowOf(place)}`;
}

function upTo(place: string | null) {
  if (place === null) return sql`false`;
  return sql`d.created_at <= ${place.split('|')[0]}::timestamptz and ${PLACE} <= ${rowOf(place)}`;
}

function rowOf(place: string) {
  const [at, accountId, sequence, id] = place.split('|');
  return sql`(${at}::timestamptz, ${accountId}, ${sequence}::bigint, ${id})`;
}
