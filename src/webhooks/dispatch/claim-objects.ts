import { type SQL, sql } from 'drizzle-orm';
import type { Tx } from '../../db/driver/client.ts';
import { prepared } from '../../db/driver/prepared.ts';
import { type ClaimPosition, laterUnderWay, type Share } from './claim-queries.ts';
import { CLAIMED, type ClaimedRow } from './delivery-queries.ts';

/*
 * What a claim takes of the endpoints that have their turn. It looks at the first due deliveries of each, and goes by
 * their objects: the head of an object is its pending delivery with the lowest `sequence`, and only a head that is free is
 * taken, with those that follow it at once.
 *
 * A delivery that another one of its object keeps waiting for long, or that takes the place of other objects, is marked:
 * `held`. Claims do not look at it any more, so that they come to everything that waits, whatever is held back. The end of
 * an earlier delivery of its object takes the mark away: the trigger `deliveries_ended` of the first migration.
 *
 * No mark is left behind: it is set while the head, which is earlier, is locked and pending. Whatever ends the head later
 * waits for that transaction and sees the mark; whatever ends others takes away the next mark after them as well.
 */

/** Due deliveries of an endpoint that are looked at, for each that it may get; and at least. More where it looks further. */
const LOOKED_AT = { perTaken: 2, perTakenFurther: 4, least: 20 };
/** The newest of an endpoint are looked at as well where the first ones are held back: what happens now does not wait for these. */
const NEWEST = 100;
/** With fewer objects to take of than these, what follows in the same objects is marked to look at further ones. */
const FEW_OBJECTS = 20;
/** Times that a claim looks further. */
const LOOKS = 5;
/** Deliveries of one object that one claim takes. */
const LONGEST_CHAIN = 50;
/** Of what is taken of an endpoint, one in so many is a replay's, whatever live deliveries wait. */
const REPLAY_SHARE = 10;

/** What an endpoint has room for. */
interface Room {
  endpointId: string;
  live: number;
  /** of replays: what live ones leave of this, */
  replayed: number;
  /** and so many whatever live ones there are */
  replayedLeast: number;
  /** manual retries alone */
  forcedOnly: boolean;
}

interface TakenRow extends Partial<ClaimedRow> {
  share_endpoint: string;
  /** 1 for the head of its object */
  rank?: string;
  /** more is due than was looked at, and it was of few objects that can be taken */
  is_short: boolean;
  /** deliveries that were marked as held back */
  marked: number;
}

type Taken = TakenRow & ClaimedRow;

/** Locks what is due of these endpoints. Notes in `position` whether it is worth looking again at once. */
export async function takeDue(
  tx: Tx,
  shares: readonly Share[],
  { exceptReplays, position }: { exceptReplays: readonly string[]; position: ClaimPosition },
): Promise<ClaimedRow[]> {
  const rooms = shares.map(({ endpointId, max, forcedOnly }): Room => {
    const replays = forcedOnly || !exceptReplays.includes(endpointId);
    const replayedLeast = replays ? Math.floor(max / REPLAY_SHARE) : 0;
    return { endpointId, live: max, replayed: replays ? max : 0, replayedLeast, forcedOnly };
  });
  for (let look = 1; ; look++) {
    // what an earlier look has locked is in the next one again
    const rows = await takeChains(tx, rooms, { isFurther: look > 1, isLast: look === LOOKS });
    position.hasMarked ||= rows.some((row) => row.marked > 0);
    position.isMore = rows.some((row) => row.is_short && row.marked > 0);
    if (!position.isMore || look === LOOKS) return takenOf(rows);
  }
}

/** Without what follows one that was locked by somebody else. */
function takenOf(rows: readonly TakenRow[]): Taken[] {
  const ranks = new Map<string, number>();
  return rows.filter((row): row is Taken => {
    if (row.id === undefined || row.id === null) return false;
    const object = `${row.endpoint_id ?? ''} ${row.object_id ?? ''}`;
    const rank = (ranks.get(object) ?? 0) + 1;
    if (Number(row.rank) !== rank) return false;
    ranks.set(object, rank);
    return true;
  });
}

const isDue = (d: SQL) =>
  sql`${d}.workflow_id is null and (${d}.next_attempt_at is null or ${d}.next_attempt_at <= now())`;
/** Whether `d` may have later ones of its object that were given to a run. */
const IS_REMADE = sql`(d.runs > 0 or d.forced or d.replay_id is not null)`;
/** The room of a `share` for deliveries of the kind of `head`. */
const ROOM = sql`case when head.is_replay then greatest(share.replayed, share.replayed_least) else share.live end`;

/** Due deliveries of a `share`, by the part of the index that they are in. */
function dueOf(newestToo: boolean): SQL {
  const part = (
    name: string,
    isReplay: 0 | 1,
    { where, order, limit }: { where: SQL; order?: SQL; limit?: SQL },
  ) => sql`
    (select ${sql.raw(`'${name}'`)} as part, d.id, d.object_id from deliveries d
      where d.status = 'pending' and d.workflow_id is null and not d.held and d.endpoint_id = share.endpoint_id
        and (d.replay_id is not null)::int = ${sql.raw(String(isReplay))} and not share.forced_only and ${where}
      order by ${order ?? sql`d.next_attempt_at nulls first, d.id`} limit ${limit ?? sql`share.looked_at`})`;
  const retried = sql`d.next_attempt_at <= now()`;
  const first = sql`d.next_attempt_at is null`;
  const newest = {
    where: first,
    order: sql`d.next_attempt_at desc nulls last, d.id desc`,
    limit: sql.raw(String(NEWEST)),
  };
  return sql`
    ${part('live retried', 0, { where: retried })} union all ${part('live', 0, { where: first })}
    ${newestToo ? sql`union all ${part('newest', 0, newest)}` : sql``}
    union all ${part('replay retried', 1, { where: sql`share.replayed > 0 and ${retried}` })}
    union all ${part('replay', 1, { where: sql`share.replayed > 0 and ${first}` })}
    union all (select 'forced', d.id, d.object_id from deliveries d
      where d.forced and d.status = 'pending' and d.workflow_id is null and not d.held
        and d.endpoint_id = share.endpoint_id and share.forced_only
      order by d.id limit share.looked_at)`;
}

/**
 * `seen`: what is looked at. `head`: the heads of its objects. `free`: those that may be taken, with their `place` in order,
 * their `count`, and a `quota`: as much of the room as the object has of what is looked at; the same each where it had to
 * look further.
 */
const heads = (isFurther: boolean) => sql`seen as materialized (
    select share.endpoint_id, due.* from share cross join lateral (${dueOf(isFurther)}) due
  ), head as materialized (
    select d.*, seen.looked, d.is_allowed and ${isDue(sql`d`)}
      and case when d.is_remade then not ${laterUnderWay()} else true end as is_free
    from (
      select endpoint_id, object_id, count(distinct id)::int as looked from seen group by endpoint_id, object_id
    ) seen
    join share on share.endpoint_id = seen.endpoint_id
    cross join lateral (
      select head.*, (head.forced or not share.forced_only) and ${ROOM} > 0 as is_allowed from (
        select d.endpoint_id, d.object_id, d.id, d.sequence, d.workflow_id, d.next_attempt_at, d.forced,
          d.replay_id is not null as is_replay, ${IS_REMADE} as is_remade
        from deliveries d
        where d.status = 'pending' and d.endpoint_id = seen.endpoint_id and d.object_id = seen.object_id
        order by d.sequence limit 1
      ) head
    ) d
  ), free as materialized (
    select head.*, row_number() over (kind order by head.next_attempt_at nulls last, head.id) as place,
      count(*) over kind as count, case when ${sql.raw(String(isFurther))} or count(*) over kind < ${sql.raw(String(FEW_OBJECTS))}
        then ceil(share.room::float8 / count(*) over kind)
        else ceil(share.room * head.looked / sum(head.looked) over kind) end::int as quota
    from head join share on share.endpoint_id = head.endpoint_id
    where head.is_free window kind as (partition by head.endpoint_id, head.is_replay)
  )`;

/**
 * What is free after its head, of the object of each head that there is room for: `rank` counts from the head. Each object
 * gets its quota in the order of the heads, then the second of each that is left, and so on. Of each twice what fills the
 * room, as some are short.
 */
const CHAINS = sql`chain as materialized (
    select head.endpoint_id, head.is_replay, c.id, c.rank, row_number() over (
      partition by head.endpoint_id, head.is_replay
      order by c.rank > head.quota, case when c.rank <= head.quota then head.place end, c.rank, head.place) as place
    from free head join share on share.endpoint_id = head.endpoint_id
    cross join lateral (
      select id, rank from (
        select d.id, row_number() over in_order as rank, bool_and(d.follows) over in_order as goes_on
        from (
          select d.id, d.sequence, ${isDue(sql`d`)} and (d.forced or not share.forced_only)
            -- live and replayed ones go in different runs
            and (d.replay_id is not null) = head.is_replay
            -- whether a later one is under way is known of the head alone
            and (head.is_remade or not ${IS_REMADE})
            and (lag(d.id) over so_far is null
              or (d.id > lag(d.id) over so_far and (not d.forced or lag(d.forced) over so_far))) as follows
          from (
            select * from deliveries d
            where d.endpoint_id = head.endpoint_id and d.object_id = head.object_id and d.status = 'pending'
            order by d.sequence limit least(
              ${sql.raw(String(LONGEST_CHAIN))}, greatest(head.quota, 1 + 2 * share.room / least(head.count, share.room)))
          ) d window so_far as (order by d.sequence, d.id)
        ) d window in_order as (order by d.sequence, d.id)
      ) d where goes_on
    ) c
    where head.place <= ${ROOM}
  ), chosen as materialized (
    select chain.endpoint_id, chain.id, chain.rank from chain
    join share on share.endpoint_id = chain.endpoint_id
    left join (select endpoint_id, count(*) as n from chain where not is_replay group by endpoint_id) live
      on live.endpoint_id = chain.endpoint_id
    where chain.place <= case when chain.is_replay
      then greatest(share.replayed - least(coalesce(live.n, 0), share.live), share.replayed_least) else share.live end
  )`;

/**
 * `marked`: what was looked at behind a head that waits for its next attempt, or behind any where an endpoint `is_short` of
 * objects; in the last look not what it takes. Whatever somebody else has locked is left for another look.
 */
const marks = (isLast: boolean) => sql`note as materialized (
    select share.endpoint_id, coalesce(bool_or(part.is_full and coalesce(free.n, 0) < least(${FEW_OBJECTS}::int, share.room)), false)
      as is_short
    from share
    left join (
      select seen.endpoint_id, seen.part like 'replay%' as is_replay, count(*) >= max(share.looked_at) as is_full
      from seen join share on share.endpoint_id = seen.endpoint_id where seen.part <> 'newest'
      group by seen.endpoint_id, seen.part
    ) part on part.endpoint_id = share.endpoint_id
    left join (select endpoint_id, is_replay, count(*) as n from free group by endpoint_id, is_replay) free
      on free.endpoint_id = share.endpoint_id and free.is_replay = part.is_replay
    group by share.endpoint_id
  ), behind as materialized (
    select distinct seen.id, head.id as head_id, head.sequence as head_sequence
    from seen
    join head on head.endpoint_id = seen.endpoint_id and head.object_id = seen.object_id and head.id <> seen.id
    join note on note.endpoint_id = seen.endpoint_id
    where (head.next_attempt_at > now() or note.is_short)
      ${isLast ? sql`and seen.id not in (select id from chosen)` : sql``}
  ), witness as materialized (
    select d.id from deliveries d
    where d.id = any(array(select head_id from behind)::text[]) and d.status = 'pending' for share skip locked
  ), unmarked as materialized (
    select d.id, d.sequence from deliveries d
    where d.id = any(array(select behind.id from behind join witness on witness.id = behind.head_id)::text[])
      and d.status = 'pending' and d.workflow_id is null and not d.held
    for update skip locked
  ), marked as (
    update deliveries d set held = true
    from unmarked join behind on behind.id = unmarked.id
    where d.id = unmarked.id and d.sequence > behind.head_sequence returning d.endpoint_id
  )`;

/** Locks the chains of the heads of what is due: by quota, as far as there is room. */
async function takeChains(
  tx: Tx,
  rooms: readonly Room[],
  { isFurther, isLast }: { isFurther: boolean; isLast: boolean },
): Promise<TakenRow[]> {
  const column = <T>(pick: (room: Room) => T) => sql.param(rooms.map(pick));
  const perTaken = isFurther ? LOOKED_AT.perTakenFurther : LOOKED_AT.perTaken;
  const lookedAt = ({ live }: Room) => Math.max(LOOKED_AT.least, live * perTaken);
  const { rows } = await tx.execute<TakenRow & Record<string, unknown>>(
    prepared(sql`
    with share as materialized (
      select *, greatest(live, replayed, 1) as room from unnest(
        ${column(({ endpointId }) => endpointId)}::text[], ${column(({ live }) => live)}::int[],
        ${column(({ replayed }) => replayed)}::int[], ${column(({ replayedLeast }) => replayedLeast)}::int[],
        ${column(({ forcedOnly }) => forcedOnly)}::boolean[], ${column(lookedAt)}::int[]
      ) as share (endpoint_id, live, replayed, replayed_least, forced_only, looked_at)
    ), ${heads(isFurther)}, ${CHAINS}, ${marks(isLast)}, taken as (
      select ${CLAIMED} from deliveries d
      where d.id = any((select coalesce(array_agg(id), '{}') from chosen)::text[])
        and d.status = 'pending' and d.workflow_id is null
      for update of d skip locked
    )
    select share.endpoint_id as share_endpoint, note.is_short, marks.n as marked, taken.*
    from share join note on note.endpoint_id = share.endpoint_id
    cross join lateral (select count(*)::int as n from marked where marked.endpoint_id = share.endpoint_id) marks
    left join (
      select taken.*, chosen.rank from taken join chosen on chosen.id = taken.id
    ) taken on taken.endpoint_id = share.endpoint_id
    order by taken.is_replay, taken.id`),
  );
  return rows;
}
