import type pg from 'pg';

/** Figures of the whole service for operators. */
export interface Statistics {
  accountsByStatus: { status: string; count: number }[];
  /** accounts reported as not in sync, except those with a refused password */
  accountsNotInSync: number;
  /** seconds since accounts were in sync, except those with a refused password; null: no accounts */
  syncLag: { max: number; p95: number; p50: number } | null;
  /** differences found between store and mailboxes, of all present accounts */
  differencesFound: number;
  /** stored emails whose parsing was cut short */
  incompleteEmails: number;
  /** OAuth apps that their provider refuses */
  failingApps: number;
  /** pending deliveries by what they wait for */
  waiting: Record<WaitReason, number>;
  /** seconds for which the oldest due delivery has waited; 0 without one */
  outboxAgeSeconds: number;
  /** enabled endpoints by the state of their circuit breaker, and disabled ones */
  endpoints: Record<'closed' | 'open' | 'disabled', number>;
  /** endpoints whose circuit breaker is open; a hundred at most */
  openBreakers: string[];
}

/**
 * Why a pending delivery waits: it is due; its next attempt is later; the circuit breaker of its endpoint is open; an
 * earlier delivery of the same object to the endpoint is pending; live deliveries precede those of a bulk replay.
 */
export type WaitReason = (typeof WAIT_REASONS)[number];
export const WAIT_REASONS = ['due', 'retry', 'breaker', 'order', 'replay'] as const;

interface Row {
  accountsByStatus: Statistics['accountsByStatus'];
  accountsNotInSync: number;
  syncLag: { max: number | null; p95: number; p50: number };
  differencesFound: number;
  incompleteEmails: number;
  failingApps: number;
  waiting: { reason: WaitReason; count: number; age: number }[];
  endpoints: { state: 'closed' | 'open' | 'disabled'; count: number; ids: string[] | null }[];
}

/**
 * Reads the figures; cheap enough for every scrape: the pending deliveries, one row per account and per endpoint. A
 * delivery that was assigned to a run and never attempted counts as due: it still waits.
 */
export async function readStatistics(pool: pg.Pool): Promise<Statistics> {
  const { rows } = await pool.query<Row>({ name: 'statistics', text: TEXT });
  const { waiting, endpoints, syncLag, ...row } = rows[0] as Row;
  const counted = <K extends string>(list: { count: number }[], keys: readonly K[], keyOf: (item: never) => K) =>
    Object.fromEntries(
      keys.map((key) => [key, list.find((item) => keyOf(item as never) === key)?.count ?? 0]),
    ) as Record<K, number>;
  return {
    ...row,
    syncLag: syncLag.max === null ? null : { ...syncLag, max: syncLag.max },
    waiting: counted(waiting, WAIT_REASONS, ({ reason }: Row['waiting'][number]) => reason),
    outboxAgeSeconds: waiting.find(({ reason }) => reason === 'due')?.age ?? 0,
    endpoints: counted(endpoints, ['closed', 'open', 'disabled'], ({ state }: Row['endpoints'][number]) => state),
    openBreakers: endpoints.find(({ state }) => state === 'open')?.ids ?? [],
  };
}

const TEXT = `
  with pending as (
    -- a million of rows come to a few for each endpoint before anything is looked up
    select endpoint_id, line, waits_for, due_at > now() as is_later, count(*) as count, min(due_at) as due_at
    from pending_deliveries group by 1, 2, 3, 4
  ), reasons as (
    select p.count, p.due_at, case
      when e.enabled and e.breaker_until > now() then 'breaker' when is_later then coalesce(waits_for, 'due')
      when line = 2 then 'replay' else 'due' end as reason
    from pending p left join webhook_endpoints e on e.id = p.endpoint_id
  ), lags as (
    select extract(epoch from now() - greatest(coalesce(last_synced_at, connected_at), followed_since))::float8 as lag
    from accounts where removed_at is null and status <> 'disconnected' and watch
  )
  select
    (select coalesce(json_agg(json_build_object('status', status, 'count', count)), '[]') from
      (select status, count(*)::int from accounts where removed_at is null group by status) a) as "accountsByStatus",
    (select count(*)::int from accounts where removed_at is null and not_in_sync_since is not null
      and status <> 'disconnected') as "accountsNotInSync",
    (select json_build_object('max', max(lag), 'p95', percentile_cont(0.95) within group (order by lag),
      'p50', percentile_cont(0.5) within group (order by lag)) from lags) as "syncLag",
    (select coalesce(sum(differences_found), 0)::int from accounts where removed_at is null) as "differencesFound",
    (select count(*)::int from emails where not is_complete) as "incompleteEmails",
    (select count(*)::int from oauth_apps where failing_since is not null) as "failingApps",
    (select coalesce(json_agg(w), '[]') from (
      select reason, sum(count)::int as count, extract(epoch from now() - min(due_at))::float8 as age
      from reasons group by reason) w) as waiting,
    (select coalesce(json_agg(s), '[]') from (
      select state, count(*)::int as count, (array_agg(id order by id))[1:100] as ids from (
        select id, case when not enabled then 'disabled' when breaker_until is not null then 'open' else 'closed' end as state
        from webhook_endpoints) e
      group by state) s) as endpoints`;
