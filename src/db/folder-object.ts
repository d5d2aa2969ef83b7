import type { Folder } from '../contract/folder.ts';
import type { folders } from './schema.ts';

/** The columns of `folders` that a Folder shows. */
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
