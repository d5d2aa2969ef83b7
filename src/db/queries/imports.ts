import { type SQL, sql } from 'drizzle-orm';
import type { Import, ImportProgress, ImportStatus } from '../../contract/runs/import.ts';
import type { Queryable } from '../driver/client.ts';
import { dateOf } from '../driver/rows.ts';

/** Reads an import of an account; undefined when it does not exist. */
export async function getImport(db: Queryable, accountId: string, id: string): Promise<Import | undefined> {
  const { rows } = await db.execute<ImportRow>(
    selected(sql`select * from imports where id = ${id} and account_id = ${accountId}`),
  );
  return rows[0] && toImport(rows[0]);
}

/** Of an import that has not ended; a paused one can be continued. */
export const UNFINISHED = sql`status in ('queued', 'running', 'waiting', 'paused')`;

/** A page of the imports of these accounts, newest first; null: of all. Those of removed accounts are left out. */
export async function listImports(
  db: Queryable,
  accountIds: readonly string[] | null,
  { status, unfinished, offset, limit }: ImportFilter & { offset: number; limit: number },
): Promise<{ data: Import[]; hasMore: boolean }> {
  const { rows } = await db.execute<ImportRow>(
    selected(sql`
      select * from imports
      where ${accountIds === null ? sql`true` : sql`account_id = any(${sql.param(accountIds)}::text[])`}
        and exists (select from accounts a where a.id = account_id and a.removed_at is null)
        and ${status === undefined ? sql`true` : sql`status = ${status}`}
        and ${unfinished === undefined ? sql`true` : sql`(${UNFINISHED}) = ${unfinished}`}
      order by created_at desc, id desc offset ${offset} limit ${limit + 1}`),
  );
  return { data: rows.slice(0, limit).map(toImport), hasMore: rows.length > limit };
}

interface ImportFilter {
  status?: ImportStatus | undefined;
  unfinished?: boolean | undefined;
}

/** Imports that should have a run, in the order of their ids: those that changed last before `before`. */
export async function importsToRun(
  db: Queryable,
  { before, afterId, limit }: { before: Date; afterId: string; limit: number },
): Promise<{ id: string; accountId: string }[]> {
  const { rows } = await db.execute<{ id: string; account_id: string }>(sql`
    select i.id, i.account_id from imports i join accounts a on a.id = i.account_id and a.removed_at is null
    where i.status in ('queued', 'running', 'waiting') and i.id > ${afterId}
      and i.created_at < ${before.toISOString()}::timestamptz
    order by i.id limit ${limit}`);
  return rows.map((row) => ({ id: row.id, accountId: row.account_id }));
}

/** The imports of an account that should have a run. */
export async function unfinishedImports(db: Queryable, accountId: string): Promise<string[]> {
  const { rows } = await db.execute<{ id: string }>(sql`
    select id from imports where account_id = ${accountId} and status in ('queued', 'running', 'waiting')
    order by created_at, id`);
  return rows.map(({ id }) => id);
}

/** Imports with their counts: of their folders until they end, then as they were stored. */
function selected(rows: SQL): SQL {
  return sql`
    select i.*, coalesce(i.counts, json_build_object('folders_known', f.known, 'folders_done', f.done,
      'messages_known', f.read + f.remaining, 'messages_done', f.read, 'messages_left', f.remaining)::jsonb) as progress
    from (${rows}) i cross join lateral (${FOLDER_COUNTS}) f order by i.created_at desc, i.id desc`;
}

const FOLDER_COUNTS = sql`
  select count(*)::int as known, (count(*) filter (where done))::int as done, coalesce(sum(read), 0)::int as read,
    coalesce(sum(remaining), 0)::int as remaining
  from import_folders where import_id = i.id`;

interface ImportRow extends Record<string, unknown> {
  id: string;
  account_id: string;
  since: string | null;
  until: string | null;
  folders: string[] | null;
  status: ImportStatus;
  reason: string;
  next_attempt_at: string | null;
  imported: number;
  read_before: number;
  running_since: string | null;
  progressed_at: string | null;
  progress: ImportProgress;
  created_at: string;
  started_at: string | null;
  completed_at: string | null;
}

function toImport(row: ImportRow): Import {
  const isRunning = row.status === 'running';
  return {
    object: 'Import',
    id: row.id,
    account_id: row.account_id,
    status: row.status,
    reason: row.reason === '' ? null : row.reason,
    next_attempt_at: date(row.next_attempt_at),
    since: date(row.since),
    until: date(row.until),
    folders: row.folders,
    order: 'newest_first',
    progress: row.progress,
    imported: row.imported,
    messages_per_second: isRunning ? rateOf(row) : null,
    created_at: new Date(row.created_at).toISOString(),
    started_at: date(row.started_at),
    completed_at: date(row.completed_at),
  };
}

/** Messages per second, with one decimal. */
function rateOf({ running_since: since, progressed_at: at, progress, read_before: before }: ImportRow): number {
  const ms = since === null || at === null ? 0 : Date.parse(at) - Date.parse(since);
  return ms <= 0 ? 0 : Math.round((Math.max(0, progress.messages_done - before) * 10_000) / ms) / 10;
}

const date = (text: string | null): string | null => (text === null ? null : dateOf(text).toISOString());
