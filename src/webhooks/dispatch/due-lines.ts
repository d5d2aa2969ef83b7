import { sql } from 'drizzle-orm';
import type { Db } from '../../db/driver/client.ts';
import { statement } from '../../db/driver/statement.ts';
import { LINES } from '../../db/outbox.ts';

/** Deliveries of one endpoint that wait together: live ones, those of replays, or manual retries. */
export interface Line {
  endpointId: string;
  /** one of LINES */
  line: number;
}

/** A line in which a delivery is due. */
export interface DueLine extends Line {
  /** its endpoint failed last */
  isFailing: boolean;
  /** the breaker of its endpoint is half open: one delivery may go */
  isProbe: boolean;
}

/** Lines of one listing, three times as many as places for runs. Others follow in the next listing, so a claim stays small. */
const MOST_LINES = 50;
/** After this a probe without a result is lost with its worker, ms: longer than a call of the default timeout. */
const PROBE_MS = 60_000;

/**
 * Lists the lines after `after` in which a delivery is due and may go; the next listing begins after `next`. While the breaker of
 * an endpoint is open only manual retries may go. It walks from line to line along the index: the cost grows with the lines.
 */
export async function listDueLines(
  db: Db,
  { after = { endpointId: '', line: 0 }, probeMs = PROBE_MS }: { after?: Line | undefined; probeMs?: number } = {},
): Promise<{ lines: DueLine[]; next: Line | undefined }> {
  const { rows } = await db.execute<DueRow>(
    statement(
      'list_due_lines',
      () => sql`
    with recursive walk as (
      (select endpoint_id, line, due_at from pending_deliveries
        where workflow_id is null and (endpoint_id, line) > (${after.endpointId}, ${after.line}::smallint)
        order by endpoint_id, line, due_at limit 1)
      union all
      select next.* from walk cross join lateral (
        select p.endpoint_id, p.line, p.due_at from pending_deliveries p
        where p.workflow_id is null and (p.endpoint_id, p.line) > (walk.endpoint_id, walk.line)
        order by p.endpoint_id, p.line, p.due_at limit 1
      ) next
    )
    select walk.endpoint_id, walk.line, extract(epoch from walk.due_at)::float8 as due_at, coalesce(e.is_failing, false) as is_failing,
      coalesce(e.breaker, '') = 'probe' as is_probe
    from walk left join lateral (
      select failures_in_a_row > 0 as is_failing,
        -- deliveries to a disabled endpoint are skipped without a call
        case when breaker_until is null or not enabled then 'closed'
          when breaker_until > now() or breaker_probe_at > now() - ${probeMs} * interval '1 millisecond' then 'open'
          else 'probe' end as breaker
      from webhook_endpoints where id = walk.endpoint_id offset 0
    ) e on true
    where walk.due_at <= now() and (walk.line = ${LINES.manual} or e.breaker is distinct from 'open')
    limit ${MOST_LINES}`,
    )(),
  );
  const last = rows.at(-1);
  return {
    lines: withOneProbe(rows).map(toLine),
    next: rows.length === MOST_LINES && last ? { endpointId: last.endpoint_id, line: last.line } : undefined,
  };
}

/**
 * Without the lines that are not probed: of the lines of an endpoint the one that has waited longest gets the probe, and manual
 * retries need none. Where all that is due in it is behind another line, putting that off makes the other the oldest.
 */
function withOneProbe(rows: readonly DueRow[]): DueRow[] {
  const oldest = new Map<string, DueRow>();
  for (const row of rows.filter(isProbe)) {
    const before = oldest.get(row.endpoint_id);
    if (!before || row.due_at < before.due_at) oldest.set(row.endpoint_id, row);
  }
  return rows.filter((row) => !isProbe(row) || oldest.get(row.endpoint_id) === row);
}

interface DueRow extends Record<string, unknown> {
  endpoint_id: string;
  line: number;
  /** the time from which the first of it is due, seconds since 1970 */
  due_at: number;
  is_failing: boolean;
  is_probe: boolean;
}

const isProbe = (row: DueRow) => row.is_probe && row.line !== LINES.manual;

const toLine = (row: DueRow): DueLine => ({
  endpointId: row.endpoint_id,
  line: row.line,
  isFailing: row.is_failing,
  isProbe: isProbe(row),
});
