import { sql } from 'drizzle-orm';
import type { Queryable } from '../../db/driver/client.ts';
import { dateOf } from '../../db/driver/rows.ts';
import type { FolderState } from './folders.ts';

/** An import of older mail. */
export interface ImportRun {
  id: string;
  accountId: string;
  since: Date | null;
  until: Date | null;
  /** `fld_…` ids and roles; null: all */
  folders: string[] | null;
}

/** Reads an import that is running; undefined: it is not. */
export async function loadImportRun(db: Queryable, id: string): Promise<ImportRun | undefined> {
  type Row = { account_id: string; since: string | null; until: string | null; folders: string[] | null };
  const { rows } = await db.execute<Row>(sql`
    select account_id, since, until, folders from imports where id = ${id} and status = 'running'`);
  const [row] = rows;
  const date = (text: string | null) => (text === null ? null : dateOf(text));
  return row && { id, accountId: row.account_id, since: date(row.since), until: date(row.until), folders: row.folders };
}

/**
 * A message `l` that is there without an email. One whose email `retention_days` has deleted is not imported again: its location
 * has the date of the email still.
 */
const IS_LEFT = sql`(l.email_id is null and l.vanished_at is null and not exists (
  select from accounts a where a.id = l.account_id and l.date < now() - make_interval(days => a.retention_days)))`;

/** A folder that an import has not read completely; `isCounted`: it is known how many messages are left. */
export interface PendingFolder {
  id: string;
  isCounted: boolean;
}

/**
 * The folders that are left to read: those of the import, folders created since, and those to which messages from before the
 * connect were moved since they were read.
 */
export async function pendingFolders(db: Queryable, { id, accountId, folders }: ImportRun): Promise<PendingFolder[]> {
  const isWanted =
    folders === null
      ? sql`true`
      : sql`(f.id = any(${sql.param(folders)}::text[])
    or f.role = any(${sql.param(folders)}::text[]))`;
  await db.execute(sql`
    insert into import_folders (import_id, folder_id, account_id)
      select ${id}, f.id, ${accountId} from folders f
      where f.account_id = ${accountId} and f.selectable and f.vacating is null and ${isWanted}
    on conflict do nothing`);
  await db.execute(sql`
    update import_folders i set done = false, remaining = null
    where i.import_id = ${id} and i.done and exists (
      select from locations l where l.folder_id = i.folder_id and l.uid >= i.read_below and ${IS_LEFT})`);
  // a folder that was deleted since has nothing to read
  await db.execute(sql`
    update import_folders i set done = true, remaining = 0
    where i.import_id = ${id} and not i.done and not exists (
      select from folders f where f.id = i.folder_id and f.selectable and f.vacating is null)`);
  const { rows } = await db.execute<{ folder_id: string; remaining: number | null }>(sql`
    select folder_id, remaining from import_folders where import_id = ${id} and not done`);
  return rows.map((row) => ({ id: row.folder_id, isCounted: row.remaining !== null }));
}

interface FolderRef {
  importId: string;
  folderId: string;
}

/** Stores how many messages are left to read. What an interrupted attempt has stored without counting it was read. */
export async function saveRemaining(db: Queryable, { importId, folderId }: FolderRef, count: number): Promise<void> {
  await db.execute(sql`
    update import_folders set read = greatest(read, read + coalesce(remaining, 0) - ${count}::int), remaining = ${count}
    where import_id = ${importId} and folder_id = ${folderId}`);
}

/** Marks a folder as read completely, but for messages that get a UID of `readBelow` or above later. */
export async function saveFolderDone(
  db: Queryable,
  { importId, folderId }: FolderRef,
  readBelow: number | null,
): Promise<void> {
  await db.execute(sql`
    update import_folders set read = read + coalesce(remaining, 0), remaining = 0, done = true, read_below = ${readBelow}
    where import_id = ${importId} and folder_id = ${folderId}`);
}

/** UIDs of one statement. */
const CHUNK = 20_000;

/**
 * Of these UIDs, those of messages from before the connect that are not stored as emails. Those at or above the baseline
 * are left to the watch, unless the store knows that they were moved there.
 */
export async function uidsToImport(db: Queryable, folder: FolderState, uids: number[]): Promise<number[]> {
  const wanted: number[] = [];
  const baseline = folder.baselineUidNext ?? Number.MAX_SAFE_INTEGER;
  for (let start = 0; start < uids.length; start += CHUNK) {
    const chunk = uids.slice(start, start + CHUNK);
    const { rows } = await db.execute<{ uids: number[] }>(sql`
      select coalesce(json_agg(u.uid order by u.uid), '[]') as uids
      from unnest(${sql.param(chunk)}::bigint[]) u (uid)
      left join locations l on l.folder_id = ${folder.id} and l.uid = u.uid
      where case when l.uid is null then u.uid < ${baseline} else ${IS_LEFT} end`);
    for (const uid of rows[0]?.uids ?? []) wanted.push(uid);
  }
  return wanted;
}
