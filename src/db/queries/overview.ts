import type pg from 'pg';
import { ENDPOINT_NAME } from './endpoint-name.ts';
import type { Overview, OverviewBucket, OverviewPeriod, Problem } from '../../contract/overview.ts';

/** Length and number of the buckets of each period. */
const BUCKETS: Record<OverviewPeriod, { seconds: number; count: number }> = {
  hour: { seconds: 60, count: 60 },
  day: { seconds: 900, count: 96 },
};
/** Pending deliveries are counted up to this number. */
const MAX_BACKLOG = 100_000;
const PROBLEMS_OF_A_KIND = 20;

/**
 * The status of the installation. Deliveries are counted from indexes alone, in ranges of their times:
 * test/api/overview.test.ts checks the plans.
 */
export async function readOverview(
  pool: pg.Pool,
  { period, endpointId }: { period: OverviewPeriod; endpointId?: string | undefined },
): Promise<Omit<Overview, 'alerts'>> {
  const { seconds, count } = BUCKETS[period];
  const now = Date.now();
  const last = Math.floor(now / (seconds * 1000));
  const from = new Date((last - count + 1) * seconds * 1000);
  const [state, counts, problems] = await Promise.all([
    readState(pool),
    endpointId === undefined ? readCounts(pool, from, seconds) : readEndpointCounts(pool, endpointId, from, seconds),
    readProblems(pool),
  ]);
  const buckets = Array.from({ length: count }, (_, index): OverviewBucket => {
    const { total, ...bucket } = { ...NONE, ...counts.get(index) };
    // a delivery may have changed between the two counts
    const delivered = Math.max(0, total - bucket.pending - bucket.failed - bucket.skipped);
    return { at: new Date(from.getTime() + index * seconds * 1000).toISOString(), delivered, ...bucket };
  });
  return {
    object: 'Overview',
    at: new Date(now).toISOString(),
    ...state,
    problems,
    bucket_seconds: seconds,
    buckets,
  };
}

interface StateRow {
  accounts: Overview['accounts'];
  endpoints: Overview['endpoints'];
  pending: number;
  oldest_pending_at: Date | null;
}

async function readState(pool: pg.Pool): Promise<Pick<Overview, 'accounts' | 'endpoints' | 'deliveries'>> {
  const { rows } = await pool.query<StateRow>({ name: 'overview-state', text: STATE });
  const row = rows[0] as StateRow;
  return {
    accounts: row.accounts,
    endpoints: row.endpoints,
    deliveries: { pending: row.pending, oldest_pending_at: row.oldest_pending_at?.toISOString() ?? null },
  };
}

const STATE = `select
  (select jsonb_build_object(
    'total', count(*),
    'running', count(*) filter (where status = 'running'),
    'errored', count(*) filter (where status = 'errored'),
    'disconnected', count(*) filter (where status = 'disconnected'),
    'not_in_sync', count(*) filter (where not_in_sync_since is not null),
    'importing', count(*) filter (where initial_sync_status in ('pending', 'running'))
  ) from accounts where removed_at is null) as accounts,
  (select jsonb_build_object(
    'total', count(*),
    'disabled', count(*) filter (where not enabled),
    'failing', count(*) filter (where enabled and failing_since is not null)
  ) from webhook_endpoints) as endpoints,
  (select count(*)::int from (select from deliveries where status = 'pending' limit ${MAX_BACKLOG}) pending) as pending,
  (select created_at from deliveries where status = 'pending' order by created_at limit 1) as oldest_pending_at`;

type Counts = Map<number, Partial<Record<Kind, number>>>;
type Kind = keyof typeof NONE;

const NONE = {
  ...{ total: 0, pending: 0, failed: 0, skipped: 0 },
  ...{ attempts_ok: 0, attempts_failed: 0, received: 0, sent: 0 },
};

/** Counts deliveries by bucket. */
async function readCounts(pool: pg.Pool, from: Date, seconds: number): Promise<Counts> {
  const { rows } = await pool.query<CountRow>({ name: 'overview-counts', text: COUNTS, values: [from, seconds] });
  return byBucket(rows);
}

/** Counts the deliveries of one endpoint by bucket. */
async function readEndpointCounts(pool: pg.Pool, endpointId: string, from: Date, seconds: number): Promise<Counts> {
  const { rows } = await pool.query<CountRow>({
    name: 'overview-endpoint-counts',
    text: ENDPOINT_COUNTS,
    values: [from, seconds, endpointId],
  });
  return byBucket(rows);
}

interface CountRow {
  kind: Kind;
  bucket: number;
  count: number;
}

function byBucket(rows: CountRow[]): Counts {
  const counts: Counts = new Map();
  for (const { kind, bucket, count } of rows) counts.set(bucket, { ...counts.get(bucket), [kind]: count });
  return counts;
}

const bucketOf = (time: string) => `floor(extract(epoch from ${time} - $1::timestamptz) / $2::int)::int`;
const BUCKET = bucketOf('created_at');

/** Attempts by outcome. */
const attemptCounts = (condition: string) => `
  select kind, ${bucketOf('minute')}, sum(count)::int
    from attempt_counts cross join lateral (values ('attempts_ok', succeeded), ('attempts_failed', failed)) outcome (kind, count)
    where minute >= $1::timestamptz ${condition} group by 1, 2`;

/** Delivered ones are the rest: `deliveries_open` has the others. */
const COUNTS = `
  select 'total' as kind, ${BUCKET} as bucket, count(*)::int as count
    from deliveries where created_at >= $1::timestamptz group by 2
  union all
  select status, ${BUCKET}, count(*)::int from deliveries
    where status in ('pending', 'failed', 'skipped') and status <> 'delivered' and created_at >= $1::timestamptz
    group by 1, 2
  union all
  ${attemptCounts('')}
  union all
  select 'received', ${BUCKET}, count(*)::int from events
    where type in ('email.new', 'email.new.bounce') and created_at >= $1::timestamptz and not test group by 2
  union all
  select 'sent', ${BUCKET}, count(*)::int from sends where state = 'sent' and created_at >= $1::timestamptz group by 2`;

const ENDPOINT_COUNTS = `
  with counted as (
    select status, ${BUCKET} as bucket, count(*)::int as count from deliveries
    where endpoint_id = $3 and created_at >= $1::timestamptz group by 1, 2
  )
  select status as kind, bucket, count from counted where status <> 'delivered'
  union all
  select 'total', bucket, sum(count)::int from counted group by 2
  union all
  ${attemptCounts('and endpoint_id = $3')}`;

async function readProblems(pool: pg.Pool): Promise<Problem[]> {
  const { rows } = await pool.query<Omit<Problem, 'since'> & { since: Date | null }>({
    name: 'overview-problems',
    text: PROBLEMS,
  });
  return rows.map(({ since, ...problem }) => ({ ...problem, since: since?.toISOString() ?? null }));
}

/**
 * SQL: when the status of an account other than `running` began; once its event is no longer stored, a time before that, which
 * does not move. `account`: an alias.
 */
export function statusBeganAt(account: string): string {
  return `coalesce((select max(e.created_at) from events e
    where e.object_id = ${account}.id and e.type = 'account.status.' || ${account}.status),
    ${account}.not_in_sync_since, ${account}.last_synced_at, ${account}.connected_at)`;
}

const PROBLEMS = `
  with away as (
    select lower(imap_host) as host, count(*)::int as accounts from accounts
    where removed_at is null and (status = 'errored' or status = 'running' and not_in_sync_since is not null) group by 1
  )
  (select 'account_' || status as kind, id, name, status_detail as detail,
      ${statusBeganAt('broken')} as since,
      lower(imap_host) as server, coalesce((select accounts from away where host = lower(imap_host)), 0) as server_accounts
    from (select * from accounts where removed_at is null and status <> 'running'
      order by status, not_in_sync_since nulls last, id limit ${2 * PROBLEMS_OF_A_KIND}) broken)
  union all
  (select 'account_not_in_sync', id, name, coalesce(nullif(watch_failure, ''), 'its mail may be behind'), not_in_sync_since,
      lower(imap_host), coalesce((select accounts from away where host = lower(imap_host)), 0)
    from accounts where removed_at is null and status = 'running' and not_in_sync_since is not null
    order by not_in_sync_since limit ${PROBLEMS_OF_A_KIND})
  union all
  (select 'endpoint_disabled', id, ${ENDPOINT_NAME}, disabled_reason, updated_at, null, 0
    from webhook_endpoints where not enabled and disabled_reason is not null order by updated_at limit ${PROBLEMS_OF_A_KIND})
  union all
  (select 'endpoint_failing', id, ${ENDPOINT_NAME},
      case when failed_attempts = 1 then '1 call failed in a row' else failed_attempts || ' calls failed in a row' end,
      failing_since, null, 0
    from webhook_endpoints where enabled and failing_since is not null order by failing_since limit ${PROBLEMS_OF_A_KIND})`;
