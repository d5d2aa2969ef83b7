import { type SQL, sql } from 'drizzle-orm';
import type { Db, Tx } from '../../db/driver/client.ts';
import { statement } from '../../db/driver/statement.ts';
import { LINES } from '../../db/outbox.ts';
import { laterUnderWay } from '../log/pending.ts';
import { type ClaimedDelivery, type ClaimedRow, type ClaimedRun, toClaimed } from './delivery-queries.ts';
import type { DueLine } from './due-lines.ts';
import { planRuns } from './plan-runs.ts';

/*
 * An example of what a claim takes. One line has, in the order of `due_at`, these deliveries of the objects A, B and C;
 * the first of B waits until 9:00 for its next attempt:
 *
 *   A1  B2  A2  C1  C2          B1 at 9:00
 *
 * The claim locks what is due first (`seen`), and finds the first pending delivery of each object (`head`): A1, B1 and C1.
 * Those that are due are free, with the deliveries that follow them at once (`chain`): A1 A2 and C1 C2. B2 is put off until
 * 9:00, so that the next claim does not look at it again. What is behind a delivery that a run has is put off for a second.
 * When a delivery ends the next one of its object is due at once (`nextInOrder`).
 */

/** A line that has its turn. */
export interface Turn extends DueLine {
  /** its endpoint failed last, or sends long responses */
  isPoor: boolean;
  /** the most deliveries that it gets */
  most: number;
  /** so many deliveries or fewer get a run each */
  alone: number;
}

/** What a claim has taken from a line. */
export interface ClaimedLine {
  turn: Turn;
  runs: ClaimedRun[];
  /** more of it may be due now, or when the runs have ended */
  hasMore: boolean;
}

/** Deliveries that are read for each one that may be taken: some are behind others. Twice as many find enough in one claim mostly. */
const SEEN_PER_TAKEN = 2;
/** Read for as many at least: a probe takes one, and what it sees may all wait behind others. */
const SEEN_FOR = 50;
/** Deliveries of one object in one claim: a run makes them one after another, so more of them would delay the end of the run. */
const CHAIN = 10;

/** waiting → claimed: gives deliveries that wait in these lines to runs. Skips lines from which another worker is claiming. */
export async function claimDeliveries(db: Db, turns: readonly Turn[]): Promise<ClaimedLine[]> {
  return db.transaction(async (tx) => {
    const locked = await lockEndpoints(tx, turns);
    const mine = turns.filter(({ endpointId }) => locked.has(endpointId));
    if (mine.length === 0) return [];
    const rows = await takeDue(tx, mine);
    const claimed = mine.map((turn) => toClaimedLine(turn, rows));
    await saveRuns(
      tx,
      claimed.flatMap(({ runs }) => runs),
    );
    const probed = claimed.filter(({ turn, runs }) => turn.isProbe && runs.length > 0);
    if (probed.length > 0) {
      await tx.execute(sql`update webhook_endpoints set breaker_probe_at = now()
        where id = any(${sql.param(probed.map(({ turn }) => turn.endpointId))}::text[])`);
    }
    return claimed;
  });
}

/** Locks endpoints until the end of the transaction; the next statement sees what the last owners of the locks have committed. */
async function lockEndpoints(tx: Tx, turns: readonly Turn[]): Promise<Set<string>> {
  const ids = [...new Set(turns.map(({ endpointId }) => endpointId))];
  const { rows } = await tx.execute<{ id: string }>(
    statement(
      'lock_endpoints',
      () => sql`
    select id from unnest(${sql.param(ids)}::text[]) as endpoint (id)
    where pg_try_advisory_xact_lock(hashtextextended('deliveries of ' || id, 0))`,
    )(),
  );
  return new Set(rows.map(({ id }) => id));
}

/** A delivery that may be taken. */
interface TakenRow extends ClaimedRow {
  line: number;
  /** place in its object, from 1 */
  rank: string;
}

interface SeenRow extends Record<string, unknown> {
  seen_endpoint: string;
  seen_line: number;
  seen: number;
  put_off: number;
}

type Row = SeenRow & (TakenRow | { [K in keyof TakenRow]: null });

/** `chain`: each free `head`, and the deliveries that follow it directly. */
const CHAIN_OF_HEAD = sql`
    chain as materialized (
      select head.endpoint_id, head.line, next.* from head cross join lateral (
        -- one is as good as due when all before it are
        select next.delivery_id, row_number() over in_order as rank, max(next.due_at) over in_order as due_at,
          -- whether a later one is under way is asked of the head alone
          bool_and(next.workflow_id is null and next.line = head.line and (next.due_at <= now() or next.waits_for = 'order')
            and (head.is_again or next.runs = 0)) over in_order as follows
        from (
          select * from pending_deliveries p
          where p.endpoint_id = head.endpoint_id and p.object_id = head.object_id
          order by p.sequence, p.delivery_id limit ${CHAIN}
        ) next window in_order as (order by next.sequence, next.delivery_id)
      ) next where head.is_free and next.follows`;

/** Deliveries of a line that a claim reads at most. */
const mostSeen = ({ most }: Turn) => Math.max(most, SEEN_FOR) * SEEN_PER_TAKEN;

/** The turns as rows. */
function linesOf(turns: readonly Turn[]): SQL {
  const column = <T>(pick: (turn: Turn) => T) => sql.param(turns.map(pick));
  return sql`
      select * from unnest(${column(({ endpointId }) => endpointId)}::text[], ${column(({ line }) => line)}::smallint[],
        ${column(({ most }) => most)}::int[], ${column(mostSeen)}::int[]) as line (endpoint_id, line, most, seen)`;
}

async function takeDue(tx: Tx, turns: readonly Turn[]): Promise<Row[]> {
  const { rows } = await tx.execute<Row>(
    statement(
      'take_due_deliveries',
      () => sql`
    with line as (${linesOf(turns)}
    ), seen as materialized (
      select due.* from line cross join lateral (
        select p.delivery_id, p.endpoint_id, p.object_id, p.line, p.due_at from pending_deliveries p
        where p.workflow_id is null and p.endpoint_id = line.endpoint_id and p.line = line.line and p.due_at <= now()
        order by p.due_at, p.delivery_id limit line.seen
        for update skip locked
      ) due
    ), head as materialized (
      select object.*, p.due_at, p.waits_for, p.is_again,
        p.workflow_id is null and p.line = object.line and (p.due_at <= now() or p.waits_for = 'order')
          and not (p.is_again and ${laterUnderWay(sql`p`)}) as is_free
      from (select distinct endpoint_id, object_id, line from seen) object cross join lateral (
        select p.*, p.runs > 0 or p.line <> ${LINES.live} as is_again from pending_deliveries p
        where p.endpoint_id = object.endpoint_id and p.object_id = object.object_id
        order by p.sequence, p.delivery_id limit 1
      ) p
    ), ${CHAIN_OF_HEAD}
    ), chosen as materialized (
      select *, row_number() over (partition by endpoint_id, line order by due_at, rank, delivery_id) as place from chain
    ), put_off as (
      update pending_deliveries p set waits_for = 'order',
        due_at = greatest(now() + interval '1 second', case when head.waits_for = 'retry' then head.due_at end)
      from seen join head on head.endpoint_id = seen.endpoint_id and head.object_id = seen.object_id and head.line = seen.line
      where p.delivery_id = seen.delivery_id and p.delivery_id not in (select delivery_id from chain)
      returning p.endpoint_id, p.line
    ), taken as (
      select p.delivery_id, chosen.rank, chosen.place, p.line, p.runs
      from chosen join line on line.endpoint_id = chosen.endpoint_id and line.line = chosen.line
      join pending_deliveries p on p.delivery_id = chosen.delivery_id
      where chosen.place <= line.most and p.workflow_id is null
      for update of p skip locked
    ), without_delivery as (
      -- never made, and others of its object would wait behind it
      delete from pending_deliveries p using taken
      where p.delivery_id = taken.delivery_id and not exists (select from deliveries d where d.id = p.delivery_id)
    )
    select line.endpoint_id as seen_endpoint, line.line as seen_line, d.*,
      (select count(*)::int from seen where seen.endpoint_id = line.endpoint_id and seen.line = line.line) as seen,
      (select count(*)::int from put_off where put_off.endpoint_id = line.endpoint_id and put_off.line = line.line) as put_off
    from line left join (
      select d.id, d.endpoint_id, d.account_id, d.event_id, d.event_type, d.object_id, d.sequence, taken.runs, taken.rank,
        taken.place, taken.line
      from taken join deliveries d on d.id = taken.delivery_id
    ) d on d.endpoint_id = line.endpoint_id and d.line = line.line
    order by d.place`,
    )(),
  );
  return rows;
}

function toClaimedLine(turn: Turn, rows: readonly Row[]): ClaimedLine {
  const ofLine = rows.filter((row) => row.seen_endpoint === turn.endpointId && row.seen_line === turn.line);
  const [{ seen, put_off: putOff } = { seen: 0, put_off: 0 }] = ofLine;
  const taken = inOrder(ofLine.filter((row): row is SeenRow & TakenRow => row.id !== null));
  const deliveries = taken.map((row): ClaimedDelivery => ({ ...toClaimed(row), isFailing: turn.isFailing }));
  // the claim has read all that it may, or rows that it has neither taken nor put off
  const hasMore = seen >= mostSeen(turn) || seen - putOff > taken.length;
  return { turn, runs: planRuns(deliveries, turn.alone), hasMore };
}

/** The rows without those that follow a missing one, which was locked or had no room. */
function inOrder<R extends TakenRow>(rows: readonly R[]): R[] {
  const ranks = new Map<string, number>();
  return rows.filter(({ object_id: objectId, rank }) => {
    const next = (ranks.get(objectId) ?? 0) + 1;
    if (Number(rank) !== next) return false;
    ranks.set(objectId, next);
    return true;
  });
}

async function saveRuns(tx: Tx, runs: readonly ClaimedRun[]): Promise<void> {
  if (runs.length === 0) return;
  const ids = runs.flatMap((run) => run.deliveries.map(({ id }) => id));
  const workflowIds = runs.flatMap((run) => run.deliveries.map(() => run.workflowId));
  await tx.execute(
    statement(
      'save_runs',
      () => sql`
    update pending_deliveries p set workflow_id = run.workflow_id, runs = p.runs + 1, claimed_at = now(), waits_for = null,
      -- one that was put off waits for nothing when its run gives it back
      due_at = least(p.due_at, now())
    from unnest(${sql.param(ids)}::text[], ${sql.param(workflowIds)}::text[]) as run (id, workflow_id)
    where p.delivery_id = run.id`,
    )(),
  );
}
