import type { FolderRole } from '../../contract/folder.ts';
import { inLease } from '../../db/coordination/lease.ts';
import { recordEvents } from '../../db/outbox.ts';
import { createFolder, folderPath } from '../../imap/change-folders.ts';
import { listFolders, statusOf } from '../../imap/list.ts';
import { FolderExists, MailError } from '../../mail-wire/mail-error.ts';
import type { SyncContext } from '../context.ts';
import { type FolderState, insertFolders, loadFolders, readFolders } from '../store/folders.ts';

/** Names that mail programs know the folders of these roles by. */
const NAMES = { SENT: 'Sent', DRAFTS: 'Drafts', TRASH: 'Trash' } as const satisfies Partial<Record<FolderRole, string>>;

/**
 * The folder of that role; created at the top level where the provider has none. Its event is emitted once, even if the
 * watch sees the folder first.
 */
export async function ensureRoleFolder(ctx: SyncContext, role: keyof typeof NAMES): Promise<FolderState> {
  const existing = await folderOf(ctx, role);
  if (existing) return existing;
  const path = folderPath(ctx.session, null, NAMES[role]);
  await createFolder(ctx.session, path).catch((error: unknown) => {
    if (!(error instanceof FolderExists)) throw error;
  });
  const facts = (await listFolders(ctx.session)).find((folder) => folder.path === path);
  if (!facts) throw new MailError('provider_error', 'imap', 'the IMAP server does not list a folder that it created');
  const status = await statusOf(ctx.session, path);
  const now = new Date();
  await inLease(ctx.db, ctx.lease, async (tx) => {
    const stored = await loadFolders(tx, ctx.account.id);
    if (stored.some((folder) => folder.path === path)) return;
    // without a baseline: what is in it is ingested as new, as in any folder that appears
    const inserted = await insertFolders(tx, ctx.account.id, [{ ...facts, role, status }], {
      now,
      mode: 'new',
      existing: stored,
    });
    const ids = inserted.map(({ id }) => id);
    const events = (await readFolders(tx, ids)).map((folder) => ({
      type: 'email.folder.create' as const,
      objectId: folder.id,
      data: { folder },
      createdAt: now,
    }));
    await recordEvents(tx, ctx.account.id, events);
  });
  const created =
    (await folderOf(ctx, role)) ?? (await loadFolders(ctx.db, ctx.account.id)).find((f) => f.path === path);
  if (!created) throw new MailError('provider_error', 'imap', 'the folder was deleted while it was being created');
  return created;
}

async function folderOf(ctx: SyncContext, role: FolderRole): Promise<FolderState | undefined> {
  return (await loadFolders(ctx.db, ctx.account.id)).find((folder) => folder.role === role && folder.selectable);
}
