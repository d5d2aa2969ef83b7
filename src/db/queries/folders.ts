import { and, eq, sql } from 'drizzle-orm';
import type pg from 'pg';
import { type Folder, FOLDER_ROLES } from '../../contract/folder.ts';
import type { Queryable } from '../driver/client.ts';
import { folders } from '../schema/index.ts';
import { compile, slot, statement } from '../driver/statement.ts';

/** The columns of `folders` in a Folder. */
export type FolderRow = Pick<
  typeof folders.$inferSelect,
  'id' | 'accountId' | 'name' | 'role' | 'parentId' | 'totalCount' | 'unreadCount'
>;

/** The contract's Folder from its row; used by reads and by folder events. */
export function toFolder(row: FolderRow): Folder {
  return {
    object: 'Folder',
    id: row.id,
    account_id: row.accountId,
    name: row.name,
    role: row.role as Folder['role'],
    parent_id: row.parentId,
    total_count: row.totalCount,
    unread_count: row.unreadCount,
  };
}

/** Lists the folders of an account by role, then name. */
export async function listFolders(db: Queryable, accountId: string): Promise<Folder[]> {
  const rows = await db.select().from(folders).where(eq(folders.accountId, accountId));
  return rows.map(toFolder).sort(inListOrder);
}

/** Reads a folder; undefined when the account has none with that id. */
export async function getFolder(db: Queryable, accountId: string, folderId: string): Promise<Folder | undefined> {
  const [row] = await db
    .select()
    .from(folders)
    .where(and(eq(folders.id, folderId), eq(folders.accountId, accountId)));
  return row && toFolder(row);
}

const oneFolder = compile(
  statement(
    'one_folder',
    () => sql`select true as exists from folders where id = ${slot('folderId')} and account_id = ${slot('accountId')}`,
  )(),
);

/** Whether the account has a folder with that id. */
export async function folderExists(pool: pg.Pool, accountId: string, folderId: string): Promise<true | undefined> {
  const { rows } = await pool.query<{ exists: true }>(oneFolder({ folderId, accountId }));
  return rows[0]?.exists;
}

const byName = new Intl.Collator('en', { numeric: true });

function inListOrder(a: Folder, b: Folder): number {
  return (
    FOLDER_ROLES.indexOf(a.role) - FOLDER_ROLES.indexOf(b.role) ||
    byName.compare(a.name, b.name) ||
    (a.id < b.id ? -1 : 1)
  );
}
