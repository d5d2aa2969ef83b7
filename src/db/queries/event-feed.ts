import { type SQL, sql } from 'drizzle-orm';
import { MAX_PAGE_BYTES } from '../../contract/common.ts';
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

/** Before all events. */
export const BEGINNING: FeedPlace = { position: '-9223372036854775808', accountId: '', sequence: '0' };

const END: FeedPlace = { ...BEGINNING, position: '9223372036854775807' };

/** The position of an event in the feed; undefined when it is not stored or is a test event. */
export async function feedPlaceOf(db: Queryable, eventId: string): Promise<FeedPlace | undefined> {
  const { rows } = await db.execute<{ position: string; account_id: string; sequence: string }>(
    sql`select position, account_id, sequence from events where id = ${eventId} and position is not null`,
  );
  return rows[0] && placeOf(rows[0]);
}

/** The position before the events of the first restore after a time; undefined: there was none. */
export async function placeOfRestoreAfter(db: Queryable, time: Date): Promise<FeedPlace | undefined> {
  const { rows } = await db.execute<{ position: string | null }>(sql`
    select min(e.position) as position from events e
    where e.type = ${'account.restored' satisfies EventType} and ${IS_WHOLE} and created_at > ${time.toISOString()}::timestamptz`);
  const position = rows[0]?.position;
  return typeof position === 'string' ? placeAt(position) : undefined;
}

/** The position before every later event. */
export async function feedEnd(db: Queryable): Promise<FeedPlace> {
  const { rows } = await db.execute<{ position: string }>(sql`select ${HORIZON} as position`);
  return placeAt(rows[0]?.position);
}

/** The place before the events of a position; undefined: the beginning. */
const placeAt = (position = BEGINNING.position): FeedPlace => ({ position, accountId: '', sequence: '0' });

const placeOf = (row: Pick<EventRow, 'position' | 'account_id' | 'sequence'>): FeedPlace => ({
  position: row.position,
  accountId: row.account_id,
  sequence: row.sequence,
});

/** An event that a webhook has delivered may be later than what is listed yet. */
function laterOf(place: FeedPlace, other = place): FeedPlace {
  return BigInt(other.position) >= BigInt(place.position) ? other : place;
}

interface EventRow {
  id: string;
  type: EventType;
  account_id: string;
  sequence: string;
  epoch: string | null;
  created_at: string;
  data: string;
  position: string;
}

/** An event with how many were seen, and how many of these belong to the page or follow it; or that alone. */
type FeedRow = Record<string, unknown> & { horizon: string; seen: number; listed: number } & (
    | EventRow
    | { [K in keyof EventRow]: null }
  );

export interface FeedPage {
  /** omitted: the beginning, or the end where the newest come first */
  after?: FeedPlace | undefined;
  limit: number;
  newestFirst?: boolean;
}

/** The events of a page, as JSON text. */
export interface FeedEvents {
  data: JsonOf<ListedEvent>[];
  lastId: string | undefined;
  hasMore: boolean;
  /** where the next page begins, oldest first: after all that was seen, also events of others */
  end: FeedPlace;
}

/** Events of all accounts that are looked at first; GROWTH times as many where these are not enough. */
const FIRST_SEEN = 64;
const GROWTH = 4;
/** Of these, so many for each index scan that they may save: a scan takes 3 to 10 µs, an event 1 to 2 in each type that is frequent. */
const SEEN_PER_SCAN = 1 / 4;
/**
 * The events after a position, oldest first, as JSON text; or those before it, newest first; without those whose content was
 * erased. For many accounts it looks through the next events of all: most are theirs, or there are few. For few accounts, and where
 * that finds too little, it makes an index scan for each type of each account, even rare ones.
 */
export async function readFeed(db: Queryable, filter: FeedFilter, page: FeedPage): Promise<FeedEvents> {
  const scans = filter.types.length * (filter.accountIds?.length ?? 0);
  for (let most = FIRST_SEEN; most <= scans * SEEN_PER_SCAN; most *= GROWTH) {
    const found = await readPage(db, filter, page, most);
    if (found) return found;
  }
  return (await readPage(db, filter, page)) as FeedEvents;
}

/** With `mostSeen`: out of so many events of all accounts; undefined when there may be others. */
async function readPage(
  db: Queryable,
  filter: FeedFilter,
  page: FeedPage,
  mostSeen?: number,
): Promise<FeedEvents | undefined> {
  const { rows } = await db.execute<FeedRow>(pageQuery(filter, page, mostSeen));
  const found = rows.filter((row) => row.id !== null);
  const { seen, listed, horizon } = rows[0] as FeedRow;
  const hasMore = listed > Math.min(found.length, page.limit);
  if (seen === mostSeen && !hasMore) return undefined;
  const events = found.slice(0, page.limit);
  const last = events.at(-1);
  return {
    data: events.map(toText),
    lastId: last?.id,
    hasMore,
    end: hasMore && last ? placeOf(last) : laterOf(placeAt(horizon), page.after),
  };
}

/** One event more than the page has; fewer where they are larger than MAX_PAGE_BYTES together, but one at least. */
function pageQuery(
  { types, accountIds }: FeedFilter,
  { after, limit, newestFirst = false }: FeedPage,
  mostSeen: number | undefined,
): SQL {
  const place = after ?? (newestFirst ? END : BEGINNING);
  const [order, than] = newestFirst ? [sql`desc`, sql`<`] : [sql`asc`, sql`>`];
  const inOrder = (of = sql``) => sql`${of}position ${order}, ${of}account_id ${order}, ${of}sequence ${order}`;
  const visible = accountIds && sql`unnest(${sql.param(accountIds)}::text[])`;
  const isByAccount = visible && !mostSeen;
  const most = mostSeen ?? limit + 1;
  return sql`
    with seen as materialized (
      select found.* from unnest(${sql.param(types)}::text[]) as wanted (type)
      ${isByAccount ? sql`cross join ${visible} as visible (account_id)` : sql``} cross join lateral (
        select e.id, e.position, e.account_id, e.sequence from events e
        where e.type = wanted.type and e.position < ${HORIZON}
          and ${isByAccount ? isAfterInAccount(place, than) : isAfter(place, than)} and ${IS_WHOLE}
        order by e.position ${order}, ${isByAccount ? sql`` : sql`e.account_id ${order},`} e.sequence ${order} limit ${most}
      ) found
      order by ${inOrder()} limit ${most}
    ), page as (
      select * from seen where ${visible ? sql`account_id in (select ${visible})` : sql`true`}
      order by ${inOrder()} limit ${limit + 1}
    )
    select ${HORIZON} as horizon, (select count(*)::int from seen) as seen, (select count(*)::int from page) as listed, shown.*
    from (select) one left join (
      select page.position, e.id, e.type, e.account_id, e.sequence, e.epoch, e.created_at, e.data,
        sum(octet_length(e.data)) over (order by ${inOrder(sql`page.`)}) - octet_length(e.data) as before
      from page join events e on e.id = page.id
    ) shown on shown.before < ${MAX_PAGE_BYTES}
    order by ${inOrder(sql`shown.`)}`;
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

const toText = (row: EventRow): JsonOf<ListedEvent> =>
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
