import type pg from 'pg';

/** Figures of the whole service for operators. */
export interface Statistics {
  accountsByStatus: { status: string; count: number }[];
  /** accounts that are reported not to be in sync, those with a refused password left out */
  accountsNotInSync: number;
  /** differences between store and mailboxes that were found, of the accounts that there are */
  differencesFound: number;
  pendingDeliveries: number;
  /** age in seconds of the oldest event that no delivery workflow has; 0 when there is none */
  outboxAgeSeconds: number;
}

/** Reads the figures; cheap enough for every scrape: indexes of open deliveries, and one row per account. */
export async function readStatistics(pool: pg.Pool): Promise<Statistics> {
  const { rows } = await pool.query<Statistics>({
    name: 'statistics',
    text: `select
        (select coalesce(json_agg(json_build_object('status', status, 'count', count)), '[]') from
          (select status, count(*)::int from accounts where removed_at is null group by status) a) as "accountsByStatus",
        (select count(*)::int from accounts where removed_at is null and not_in_sync_since is not null
          and status <> 'disconnected') as "accountsNotInSync",
        (select coalesce(sum(differences_found), 0)::int from accounts where removed_at is null) as "differencesFound",
        (select count(*)::int from deliveries where status = 'pending') as "pendingDeliveries",
        (select coalesce(extract(epoch from now() - min(created_at)), 0)::float8 from deliveries
          where status = 'pending' and workflow_id is null) as "outboxAgeSeconds"`,
  });
  return rows[0] as Statistics;
}
