import { type SQL, sql } from 'drizzle-orm';
import type { Import, ImportStatus } from '../../contract/runs/import.ts';
import type { EventType } from '../../contract/events.ts';
import type { Db, Queryable, Tx } from '../driver/client.ts';
import { recordEvents } from '../outbox.ts';
import { getImport, UNFINISHED } from '../queries/imports.ts';
import { inLease, LeaseLost } from './lease.ts';

/*
 * The states of an import of older mail. The workflow `importHistory` carries it out; a call that changes the state wakes it.
 *
 * state                       transition       next
 * none                        createImport     queued
 * queued, running, waiting    beginImport      running     unless the initial sync, an earlier import or one that runs
 *                                                          comes first (queued), or the account is disconnected (waiting)
 * running                     holdImport       waiting     an attempt failed
 * queued, running, waiting    pauseImport      paused      nothing is stored from then on
 * paused, failed              continueImport   queued
 * running                     completeImport   completed   all its folders are done
 * queued, running, waiting    failImport       failed      5 failures in a row without progress
 * all but completed, cancelled  cancelImport   cancelled   what was imported stays
 */

export interface ImportRequest {
  id: string;
  accountId: string;
  since: Date | null;
  until: Date | null;
  /** null: all */
  folders: string[] | null;
}

/** The import is no longer running: roll the transaction back and stop. */
export class ImportStopped extends Error {
  override readonly name = 'ImportStopped';
}

const UNDER_WAY = sql`status in ('queued', 'running', 'waiting')`;

/** none → queued; does nothing when that id exists. */
export async function createImport(db: Queryable, { id, accountId, since, until, folders }: ImportRequest) {
  await db.execute(sql`
    insert into imports (id, account_id, since, until, folders, created_at)
    values (${id}, ${accountId}, ${since?.toISOString() ?? null}::timestamptz, ${until?.toISOString() ?? null}::timestamptz,
      ${sql.param(folders)}::text[], clock_timestamp())
    on conflict (id) do nothing`);
}

/** Imports of an account that have not ended, paused ones included. */
export async function countUnfinished(db: Queryable, accountId: string): Promise<number> {
  const { rows } = await db.execute<{ count: number }>(sql`
    select count(*)::int as count from imports
    where account_id = ${accountId} and ${UNFINISHED}`);
  return rows[0]?.count ?? 0;
}

/** Why an import cannot run now; null: it can. */
const OBSTACLE = sql`case
  when a.status = 'disconnected' then 'disconnected'
  when a.initial_sync_status in ('pending', 'running') then 'initial sync'
  when exists (
    select from imports e where e.account_id = i.account_id and e.id <> i.id and (e.status = 'running'
      or e.status in ('queued', 'waiting') and (e.created_at, e.id) < (i.created_at, i.id))) then 'import' end`;

const REASONS: Record<string, { status: ImportStatus; reason: string }> = {
  disconnected: { status: 'waiting', reason: 'the provider rejected the login of this account: reconnect it' },
  'initial sync': { status: 'queued', reason: 'the initial sync of this account comes first' },
  import: { status: 'queued', reason: 'another import of this account comes first' },
};

/**
 * queued, running, waiting → running, queued or waiting, as the file says; the first time it runs, with the event
 * `import.started`. Returns the import; undefined when it does not exist, or its account is being removed.
 */
export function beginImport(db: Db, ref: ImportRef): Promise<Import | undefined> {
  return transition(db, ref, async (tx) => {
    const { rows } = await tx.execute<{ obstacle: string | null; started: boolean }>(sql`
      select ${OBSTACLE} as obstacle, i.started_at is not null as started
      from imports i join accounts a on a.id = i.account_id where i.id = ${ref.id} and i.${UNDER_WAY}`);
    const [row] = rows;
    if (!row) return undefined;
    const obstacle = row.obstacle === null ? undefined : REASONS[row.obstacle];
    if (obstacle) {
      await set(tx, ref.id, sql`status = ${obstacle.status}, reason = ${obstacle.reason}, next_attempt_at = null`);
      return undefined;
    }
    await set(
      tx,
      ref.id,
      sql`status = 'running', reason = '', next_attempt_at = null, started_at = coalesce(started_at, now()),
        running_since = now(), progressed_at = null,
        read_before = (select coalesce(sum(f.read), 0) from import_folders f where f.import_id = ${ref.id})`,
    );
    return row.started ? undefined : 'import.started';
  });
}

/** running → waiting, for the next attempt at that time. */
export function holdImport(db: Db, ref: ImportRef, reason: string, nextAttemptAt: Date): Promise<Import | undefined> {
  return transition(db, ref, async (tx) => {
    const at = nextAttemptAt.toISOString();
    const change = sql`status = 'waiting', reason = ${reason}, next_attempt_at = ${at}::timestamptz`;
    await set(tx, ref.id, change, sql`status = 'running'`);
    return undefined;
  });
}

/** queued, running, waiting → paused. */
export function pauseImport(db: Db, ref: ImportRef): Promise<Import | undefined> {
  return transition(db, ref, async (tx) => {
    await set(tx, ref.id, sql`status = 'paused', reason = '', next_attempt_at = null`, UNDER_WAY);
    return undefined;
  });
}

/** paused, failed → queued. */
export function continueImport(db: Db, ref: ImportRef): Promise<Import | undefined> {
  return transition(db, ref, async (tx) => {
    const change = sql`status = 'queued', reason = '', completed_at = null`;
    await set(tx, ref.id, change, sql`status in ('paused', 'failed')`);
    return undefined;
  });
}

/** running → completed. */
export const completeImport = (db: Db, ref: ImportRef) =>
  end(db, ref, { to: 'completed', from: sql`status = 'running'` });

/** queued, running, waiting → failed. */
export const failImport = (db: Db, ref: ImportRef, reason: string) =>
  end(db, ref, { to: 'failed', from: UNDER_WAY, reason });

/** queued, running, waiting, paused, failed → cancelled. */
export const cancelImport = (db: Db, ref: ImportRef) =>
  end(db, ref, { to: 'cancelled', from: sql`status not in ('completed', 'cancelled')` });

/**
 * Counts a batch in the transaction that stores it.
 * @throws ImportStopped when the import is no longer running
 */
export async function countBatch(
  tx: Queryable,
  { importId, folderId }: { importId: string; folderId: string },
  { imported, read }: { imported: number; read: number },
): Promise<void> {
  const { rows } = await tx.execute(sql`
    with running as (
      update imports set imported = imported + ${imported}, progressed_at = now()
      where id = ${importId} and status = 'running' returning id
    ), counted as (
      update import_folders set read = read + ${read}, remaining = greatest(0, remaining - ${read}::int)
      where import_id = ${importId} and folder_id = ${folderId} and exists (select from running)
    )
    select from running`);
  if (rows.length === 0) throw new ImportStopped(`the import ${importId} is not running`);
}

export interface ImportRef {
  id: string;
  accountId: string;
}

async function end(
  db: Db,
  ref: ImportRef,
  { to, from, reason = '' }: { to: 'completed' | 'failed' | 'cancelled'; from: SQL; reason?: string },
): Promise<Import | undefined> {
  return transition(db, ref, async (tx) => {
    const change = sql`status = ${to}, reason = ${reason}, next_attempt_at = null, completed_at = now()`;
    if (!(await set(tx, ref.id, change, from))) return undefined;
    if (to !== 'failed') await archiveCounts(tx, ref);
    return `import.${to}`;
  });
}

/** Stores the counts of an import that has ended, and deletes those of its folders. */
async function archiveCounts(tx: Tx, { id, accountId }: ImportRef): Promise<void> {
  const ended = await getImport(tx, accountId, id);
  await tx.execute(sql`update imports set counts = ${JSON.stringify(ended?.progress)}::jsonb where id = ${id}`);
  await tx.execute(sql`delete from import_folders where import_id = ${id}`);
}

/** Whether the row has changed. */
async function set(tx: Tx, id: string, change: SQL, from: SQL = UNDER_WAY): Promise<boolean> {
  const { rows } = await tx.execute(sql`update imports set ${change} where id = ${id} and ${from} returning id`);
  return rows.length > 0;
}

/**
 * Commits a transition with its event. Returns the import afterwards; undefined when it does not exist, or its account is being
 * removed.
 */
async function transition(
  db: Db,
  { id, accountId }: ImportRef,
  change: (tx: Tx) => Promise<EventType | undefined>,
): Promise<Import | undefined> {
  // serialises the transitions and the batches of an account
  return inLease(db, { accountId, watchEpoch: null }, async (tx) => {
    const type = await change(tx);
    const after = await getImport(tx, accountId, id);
    if (type && after) {
      await recordEvents(tx, accountId, [{ type, objectId: id, data: { import: after }, createdAt: new Date() }]);
    }
    return after;
  }).catch((error: unknown) => {
    if (error instanceof LeaseLost) return undefined;
    throw error;
  });
}
