import { type SQL, sql } from 'drizzle-orm';
import { envelopeText, type EventType, type ListedEvent } from '../../contract/events.ts';
import { IS_ERASED, IS_WHOLE } from '../coordination/removal.ts';
import type { Queryable } from '../driver/client.ts';
import type { JsonOf } from '../driver/json-text.ts';

/*
 * The events in an order to which new ones are only appended, even when a transaction commits late. `position` is the
 * number of the event's transaction, or the greatest number of a transaction that had ended before, whichever is greater
 * (src/db/schema/index.ts). The feed shows the events below the oldest open transaction: all of theirs have ended, and
 * every later event gets a greater position. A transaction that stays open holds the feed back, even one in another
 * database of the same server.
 *
 * Within an account the order is that of `sequence`: the account's row is locked until the commit, so its next event is
 * inserted when the previous transaction has ended, and sees the same or a greater number. `sequence` orders events with
 * the same number.
 */

/** The first transaction that is still under way, or the next one. */
const HORIZON = sql`pg_snapshot_xmin(pg_current_snapshot())::text::bigint`;

/** Filters of the feed. */
export interface FeedFilter {
  types: readonly EventType[];
  /** of any of these; omitted: of all */
  accountIds?: readonly string[] | undefined;
}

/** Where a page begins. */
export interface FeedPlace {
  position: string;
  accountId: string;
  sequence: string;
}

const BEGINNING: FeedPlace = { position: '-9223372036854775808', accountId: '', sequence: '0' };

const END: FeedPlace = { ...BEGINNING, position: '9223372036854775807' };

/** The position of an event in the feed; undefined when it is not stored or is a test event. */
export async function feedPlaceOf(db: Queryable, eventId: string): Promise<FeedPlace | undefined> {
  const { rows } = await db.execute<{ position: string; account_id: string; sequence: string }>(
    sql`select position, account_id, sequence from events where id = ${eventId} and position is not null`,
  );
  const row = rows[0];
  return row && { position: row.position, accountId: row.account_id, sequence: row.sequence };
}

/** The position before the events of the first restore after a time; undefined: there was none. */
export async function placeOfRestoreAfter(db: Queryable, time: Date): Promise<FeedPlace | undefined> {
  const { rows } = await db.execute<{ position: string | null }>(sql`
    select min(e.position) as position from events e
    where e.type = ${'account.restored' satisfies EventType} and ${IS_WHOLE} and created_at > ${time.toISOString()}::timestamptz`);
  const position = rows[0]?.position;
  return typeof position === 'string' ? { position, accountId: '', sequence: '0' } : undefined;
}

/** The position before every later event. */
export async function feedEnd(db: Queryable): Promise<FeedPlace> {
  const { rows } = await db.execute<{ position: string }>(sql`select ${HORIZON} as position`);
  return { position: rows[0]?.position ?? BEGINNING.position, accountId: '', sequence: '0' };
}

interface FeedRow extends Record<string, unknown> {
  id: string;
  type: EventType;
  account_id: string;
  sequence: string;
  epoch: string | null;
  created_at: string;
  data: string;
}

export interface FeedPage {
  /** omitted: the beginning, or the end where the newest come first */
  after?: FeedPlace | undefined;
  limit: number;
  newestFirst?: boolean;
}

/**
 * The events after a position, oldest first, as JSON text; or those before it, newest first; without those whose content was
 * erased. One index scan for each type and account, even rare ones.
 */
export async function readFeed(
  db: Queryable,
  filter: FeedFilter,
  { after, limit, newestFirst = false }: FeedPage,
): Promise<{ data: JsonOf<ListedEvent>[]; lastId: string | undefined; hasMore: boolean }> {
  const { types, accountIds } = filter;
  const place = after ?? (newestFirst ? END : BEGINNING);
  const [order, than] = newestFirst ? [sql`desc`, sql`<`] : [sql`asc`, sql`>`];
  const visible = accountIds && sql`cross join unnest(${sql.param(accountIds)}::text[]) as visible (account_id)`;
  const { rows } = await db.execute<FeedRow>(sql`
    with page as (
      select found.* from unnest(${sql.param(types)}::text[]) as wanted (type) ${visible ?? sql``} cross join lateral (
        select e.id, e.position, e.account_id, e.sequence from events e
        where e.type = wanted.type and e.position < ${HORIZON} and ${visible ? isAfterInAccount(place, than) : isAfter(place, than)}
          and ${IS_WHOLE}
        order by e.position ${order}, ${visible ? sql`` : sql`e.account_id ${order},`} e.sequence ${order} limit ${limit + 1}
      ) found
      order by position ${order}, account_id ${order}, sequence ${order} limit ${limit + 1}
    )
    select e.id, e.type, e.account_id, e.sequence, e.epoch, e.created_at, e.data from page join events e on e.id = page.id
    order by page.position ${order}, page.account_id ${order}, page.sequence ${order}`);
  const page = rows.slice(0, limit);
  return { data: page.map(toText), lastId: page.at(-1)?.id, hasMore: rows.length > limit };
}

/** Written as a range of the index that the list uses. */
function isAfter({ position, accountId, sequence }: FeedPlace, than: SQL): SQL {
  return sql`(e.position, e.account_id, e.sequence) ${than} (${position}::bigint, ${accountId}, ${sequence}::bigint)`;
}

/**
 * Whether an event comes after a position (`>`), or before it (`<`), within one account: at one position the events of another account all come
 * before or after it.
 */
function isAfterInAccount({ position, accountId, sequence }: FeedPlace, than: SQL): SQL {
  const from = sql`case when ${accountId} = visible.account_id then ${sequence}::bigint
    when ${accountId} < visible.account_id then 0 else ${'9223372036854775807'}::bigint end`;
  return sql`e.account_id = visible.account_id and (e.position, e.sequence) ${than} (${position}::bigint, ${from})`;
}

const toText = (row: FeedRow): JsonOf<ListedEvent> =>
  envelopeText(
    {
      id: row.id,
      type: row.type,
      createdAt: new Date(row.created_at),
      accountId: row.account_id,
      sequence: Number(row.sequence),
      epoch: row.epoch === null ? null : Number(row.epoch),
      data: row.data,
    },
    null,
  ) as JsonOf<ListedEvent>;

/**
 * Moves the stored positions below the current transaction numbers, in their order: numbers restart in a database that
 * was restored from a dump or replicated its rows. Call it before the first event is written.
 */
export async function alignPositions(db: Queryable, types: readonly EventType[]): Promise<void> {
  await db.execute(sql`
    with ahead as (
      select max(last.position) as position from (
        select last.position from unnest(${sql.param(types)}::text[]) as known (type)
        cross join lateral (
          select e.position from events e where e.type = known.type and e.position is not null and ${IS_WHOLE}
          order by e.position desc limit 1
        ) last
        union all select max(e.position) from events e where ${IS_ERASED}
      ) last
    )
    update events e set position = e.position - ahead.position + ${HORIZON} - 1 from ahead
    where ahead.position >= pg_snapshot_xmax(pg_current_snapshot())::text::bigint and e.position is not null`);
}
