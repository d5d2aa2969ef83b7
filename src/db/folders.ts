import { and, eq } from 'drizzle-orm';
import { FOLDER_ROLES, type Folder } from '../contract/folder.ts';
import type { Queryable } from './client.ts';
import { toFolder } from './folder-object.ts';
import { folders } from './schema.ts';

/** Every folder of an account: INBOX, other roles, then by name. */
export async function listFolders(db: Queryable, accountId: string): Promise<Folder[]> {
  const rows = await db.select().from(folders).where(eq(folders.accountId, accountId));
  return rows.map(toFolder).sort(inListOrder);
}

/** One folder; undefined when the account has none with that id. */
export async function getFolder(db: Queryable, accountId: string, folderId: string): Promise<Folder | undefined> {
  const [row] = await db
    .select()
    .from(folders)
    .where(and(eq(folders.id, folderId), eq(folders.accountId, accountId)));
  return row && toFolder(row);
}

const byName = new Intl.Collator('en', { numeric: true });

function inListOrder(a: Folder, b: Folder): number {
  return (
    FOLDER_ROLES.indexOf(a.role) - FOLDER_ROLES.indexOf(b.role) ||
    byName.compare(a.name, b.name) ||
    (a.id < b.id ? -1 : 1)
  );
}
