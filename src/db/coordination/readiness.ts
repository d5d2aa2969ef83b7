import type pg from 'pg';
import { SILENT_MS } from './workers.ts';

/** What the store says of the workers. */
export interface Readiness {
  /** a worker takes work: changes can be made */
  hasWorker: boolean;
  /** mailboxes that should be followed */
  mailboxes: number;
  /** of these, the ones that a live worker has brought in sync since it started */
  inSync: number;
}

/** Reads it in one statement; rejects when the database is unavailable. */
export async function readReadiness(pool: Pick<pg.Pool, 'query'>): Promise<Readiness> {
  const { rows } = await pool.query<Readiness>(
    `WITH live AS (SELECT id, started_at FROM workers 
         WHERE seen_at BETWEEN now() - make_interval(secs => $1) AND now() + make_interval(secs => $1))
     SELECT EXISTS (SELECT FROM live) AS "hasWorker", count(*)::int AS mailboxes,
       (count(*) FILTER (WHERE a.last_synced_at >= live.started_at))::int AS "inSync"
     FROM accounts a LEFT JOIN live ON live.id = a.watched_by
     WHERE a.removed_at IS NULL AND a.status = 'running' AND a.watch`,
    [SILENT_MS / 1000],
  );
  return rows[0] ?? { hasWorker: false, mailboxes: 0, inSync: 0 };
}
