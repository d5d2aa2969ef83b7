import { type SQL, sql } from 'drizzle-orm';
import type { Tx } from '../db/client.ts';
import { type ClaimPosition, laterUnderWay, type Share } from './claim-queries.ts';
import { CLAIMED, type ClaimedRow } from './delivery-queries.ts';

/*
 * What a claim takes of the endpoints that have their turn. It goes by objects: the head of an object is its pending
 * delivery with the lowest `sequence`, and only a head that is free is taken, with those that follow it at once. Which
 * objects have their heads looked at: those of the first and of the newest due deliveries; and where these were as many as
 * are looked at and left room, the next objects along the index. That walk goes on in the next claim from where it has come
 * to, whatever was taken, and begins again after the last object.
 */

/** Due deliveries of an endpoint whose objects are looked at, for each that it may get; and of the oldest at least. */
const LOOKED_AT = { perTaken: 2, least: 20 };
/** The newest of an endpoint, which are looked at as well: what happens now does not wait for what is held back. */
const NEWEST = 100;
/** Objects of one claim that are walked along, over all endpoints. */
const MAX_WALKED = 4_000;
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
}

interface TakenRow extends Partial<ClaimedRow> {
  share_endpoint: string;
  /** 1 for the head of its object */
  rank?: string;
  /** there may be more due ones than were looked at */
  is_more_live?: boolean;
  is_more_replayed?: boolean;
  /** the object that the walk has come to; null: to the end */
  looked?: string | null;
}

type Taken = TakenRow & ClaimedRow;

/** Locks what is due of these endpoints. Notes in `position` how far it has looked. */
export async function takeDue(
  tx: Tx,
  all: readonly Share[],
  { exceptReplays, position }: { exceptReplays: readonly string[]; position: ClaimPosition },
): Promise<ClaimedRow[]> {
  const rooms = all
    .filter(({ forcedOnly }) => !forcedOnly)
    .map(({ endpointId, max }): Room => {
      const replays = !exceptReplays.includes(endpointId);
      const replayedLeast = replays ? Math.floor(max / REPLAY_SHARE) : 0;
      return { endpointId, live: max, replayed: replays ? max : 0, replayedLeast };
    });
  if (rooms.length === 0) return [];
  const rows = await takeChains(tx, rooms, ofDueRows());
  const first = takenOf(rows);
  const left = rooms.flatMap((room) => {
    const of = rows.filter(({ share_endpoint: endpointId }) => endpointId === room.endpointId);
    if (!of[0]?.is_more_live && !of[0]?.is_more_replayed) position.looked.delete(room.endpointId);
    return roomLeft(room, of);
  });
  if (left.length === 0) return first;
  const most = Math.ceil(MAX_WALKED / left.length);
  const walked = await takeChains(
    tx,
    left,
    ofNextObjects(
      left.map(({ endpointId }) => position.looked.get(endpointId) ?? ''),
      { most, except: first.map(({ id }) => id) },
    ),
  );
  for (const { share_endpoint: endpointId, looked } of walked) {
    if (typeof looked === 'string') position.looked.set(endpointId, looked);
    else position.looked.delete(endpointId);
  }
  return [...first, ...takenOf(walked)];
}

/** What is left of the room of an endpoint for which there may be more than was looked at. */
function roomLeft({ endpointId, ...room }: Room, rows: readonly TakenRow[]): Room[] {
  const replayed = rows.filter((row) => row.is_replay === true).length;
  const live = rows.filter((row) => row.is_replay === false).length;
  const left = rows[0]?.is_more_live ? room.live - live : 0;
  const more = rows[0]?.is_more_replayed;
  const replayedLeft = more ? Math.max(0, room.replayed - live - replayed) : 0;
  const replayedLeast = more ? Math.max(0, room.replayedLeast - replayed) : 0;
  if (left <= 0 && replayedLeft + replayedLeast === 0) return [];
  return [{ endpointId, live: Math.max(0, left), replayed: replayedLeft, replayedLeast }];
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

/** The first pending delivery of the first object that `where` leaves: one step along the index. */
const headOf = (where: SQL) => sql`
  select d.endpoint_id, d.object_id, d.id, d.sequence, d.workflow_id, d.next_attempt_at,
    d.replay_id is not null as is_replay, ${IS_REMADE} as is_remade
  from deliveries d where d.status = 'pending' and ${where} order by d.object_id, d.sequence limit 1`;

/** Of heads `d`: no run has it, it is due, and no later one of its object is under way. */
const IS_FREE = sql`${isDue(sql`d`)} and case when d.is_remade then not ${laterUnderWay()} else true end`;

/** The heads that may be taken, as `head` with their `place` and `count` by endpoint and kind, and what the claim notes for a `share`, of `note`. */
interface Heads {
  ctes: SQL;
  noted: SQL;
}

/** The heads of the objects of the first due deliveries, and of the newest: what waited for its next attempt goes first. */
function ofDueRows(): Heads {
  const part = (
    name: string,
    isReplay: 0 | 1,
    { where, order, limit }: { where: SQL; order?: SQL; limit?: SQL },
  ) => sql`
    (select ${sql.raw(`'${name}'`)} as part, d.object_id from deliveries d
      where d.status = 'pending' and d.workflow_id is null and d.endpoint_id = share.endpoint_id
        and (d.replay_id is not null)::int = ${sql.raw(String(isReplay))} and ${where}
      order by ${order ?? sql`d.next_attempt_at nulls first, d.id`} limit ${limit ?? sql`share.looked_at`})`;
  const retried = sql`d.next_attempt_at <= now()`;
  const first = sql`d.next_attempt_at is null`;
  return {
    ctes: sql`seen as materialized (
      select share.endpoint_id, due.part, due.object_id from share cross join lateral (
        ${part('retried', 0, { where: retried })} union all ${part('first', 0, { where: first })}
        union all ${part('newest', 0, {
          where: first,
          order: sql`d.next_attempt_at desc nulls last, d.id desc`,
          limit: sql.raw(String(NEWEST)),
        })}
        union all ${part('replay retried', 1, { where: sql`share.replayed > 0 and ${retried}` })}
        union all ${part('replay', 1, { where: sql`share.replayed > 0 and ${first}` })}
      ) due
    ), head as materialized (
      select d.*, row_number() over (
        partition by d.endpoint_id, d.is_replay order by d.next_attempt_at nulls last, d.id) as place,
        count(*) over (partition by d.endpoint_id, d.is_replay) as count
      from (select distinct endpoint_id, object_id from seen) seen
      cross join lateral (
        ${headOf(sql`d.endpoint_id = seen.endpoint_id and d.object_id = seen.object_id`)}
      ) d where ${IS_FREE}
    ), note as materialized (
      select endpoint_id, bool_or(is_full and part in ('retried', 'first')) as is_more_live,
        bool_or(is_full and part in ('replay retried', 'replay')) as is_more_replayed
      from (
        select seen.endpoint_id, seen.part, count(*) >= max(share.looked_at) as is_full
        from seen join share on share.endpoint_id = seen.endpoint_id group by seen.endpoint_id, seen.part
      ) seen group by endpoint_id
    )`,
    noted: sql`note.is_more_live, note.is_more_replayed`,
  };
}

/**
 * The heads of the next objects, in the order of their ids, from after `from`, which is by share; at most so many of an
 * endpoint. Notes the last one before the first that is free and has no room.
 */
function ofNextObjects(from: readonly string[], { most, except }: { most: number; except: readonly string[] }): Heads {
  const next = (after: SQL) => headOf(sql`d.endpoint_id = ${after}.endpoint_id and d.object_id > ${after}.object_id`);
  const room = sql`case when head.is_replay
    then greatest(share.replayed - least(live.n, share.live), share.replayed_least) else share.live end`;
  return {
    ctes: sql`start as materialized (
      select share.endpoint_id, (${sql.param(from)}::text[])[share.number::int] as object_id from share
    ), walk as (
      select d.*, 1 as n from start cross join lateral (${next(sql`start`)}) d
      union all
      select d.*, walk.n + 1 from walk cross join lateral (${next(sql`walk`)}) d where walk.n < ${most}::int
    ), head as materialized (
      select d.*, row_number() over (partition by d.endpoint_id, d.is_replay order by d.object_id) as place,
        count(*) over (partition by d.endpoint_id, d.is_replay) as count
      from walk d where d.id <> all(${sql.param(except)}::text[]) and ${IS_FREE}
    ), over as materialized (
      select head.endpoint_id, min(head.object_id) as object_id from head
      join share on share.endpoint_id = head.endpoint_id
      cross join lateral (
        select count(*) as n from head l where l.endpoint_id = share.endpoint_id and not l.is_replay and head.is_replay
      ) live
      where head.place > ${room} and ${room} > 0 group by head.endpoint_id
    ), note as materialized (
      select walk.endpoint_id, case when over.object_id is not null or count(*) = ${most}::int
        then max(walk.object_id) filter (where over.object_id is null or walk.object_id < over.object_id) end as looked
      from walk left join over on over.endpoint_id = walk.endpoint_id group by walk.endpoint_id, over.object_id
    )`,
    noted: sql`note.looked`,
  };
}

/**
 * What is free after its head, of the object of each head that there is room for: `rank` counts from the head. Of each twice
 * what fills the room, as some are short.
 */
const CHAINS = sql`chain as materialized (
    select head.endpoint_id, head.is_replay, c.id, c.rank,
      row_number() over (partition by head.endpoint_id, head.is_replay order by c.rank, head.place) as place
    from head join share on share.endpoint_id = head.endpoint_id
    cross join lateral (
      select id, rank from (
        select d.id, row_number() over in_order as rank, bool_and(d.follows) over in_order as goes_on
        from (
          select d.id, d.sequence, ${isDue(sql`d`)}
            -- live and replayed ones go in different runs
            and (d.replay_id is not null) = head.is_replay
            -- whether a later one is under way is known of the head alone
            and (head.is_remade or not ${IS_REMADE})
            and (lag(d.id) over so_far is null
              or (d.id > lag(d.id) over so_far and (not d.forced or lag(d.forced) over so_far))) as follows
          from (
            select * from deliveries d
            where d.endpoint_id = head.endpoint_id and d.object_id = head.object_id and d.status = 'pending'
            order by d.sequence limit least(${sql.raw(String(LONGEST_CHAIN))}, 1 + 2 * share.room / least(head.count, share.room))
          ) d window so_far as (order by d.sequence, d.id)
        ) d window in_order as (order by d.sequence, d.id)
      ) d where goes_on
    ) c
    where head.place <= case when head.is_replay then greatest(share.replayed, share.replayed_least) else share.live end
  ), chosen as materialized (
    select chain.endpoint_id, chain.id, chain.rank from chain
    join share on share.endpoint_id = chain.endpoint_id
    left join (select endpoint_id, count(*) as n from chain where not is_replay group by endpoint_id) live
      on live.endpoint_id = chain.endpoint_id
    where chain.place <= case when chain.is_replay
      then greatest(share.replayed - least(coalesce(live.n, 0), share.live), share.replayed_least) else share.live end
  )`;

/** Locks the chains of these heads: the heads of all objects first, then what follows, as far as there is room. */
async function takeChains(tx: Tx, rooms: readonly Room[], { ctes, noted }: Heads): Promise<TakenRow[]> {
  const column = <T>(pick: (room: Room) => T) => sql.param(rooms.map(pick));
  const lookedAt = ({ live }: Room) => Math.max(LOOKED_AT.least, live * LOOKED_AT.perTaken);
  const { rows } = await tx.execute<TakenRow & Record<string, unknown>>(sql`
    with recursive share as materialized (
      select *, greatest(live, replayed, 1) as room from unnest(
        ${column(({ endpointId }) => endpointId)}::text[], ${column(({ live }) => live)}::int[],
        ${column(({ replayed }) => replayed)}::int[], ${column(({ replayedLeast }) => replayedLeast)}::int[],
        ${column(lookedAt)}::int[]
      ) with ordinality as share (endpoint_id, live, replayed, replayed_least, looked_at, number)
    ), ${ctes}, ${CHAINS}, taken as (
      select ${CLAIMED} from deliveries d
      where d.id = any((select coalesce(array_agg(id), '{}') from chosen)::text[])
        and d.status = 'pending' and d.workflow_id is null
      for update of d skip locked
    )
    select share.endpoint_id as share_endpoint, ${noted}, taken.*
    from share left join note on note.endpoint_id = share.endpoint_id left join (
      select taken.*, chosen.rank from taken join chosen on chosen.id = taken.id
    ) taken on taken.endpoint_id = share.endpoint_id
    order by taken.is_replay, taken.id`);
  return rows;
}
