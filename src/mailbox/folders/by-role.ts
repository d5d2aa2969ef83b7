import { ApiError } from '../../contract/errors.ts';
import type { FolderRole } from '../../contract/folder.ts';
import { inLease } from '../../db/coordination/lease.ts';
import { recordEvents } from '../../db/outbox.ts';
import { createFolder, folderPath } from '../../imap/change-folders.ts';
import { type FolderSnapshot, listFolders, statusOf } from '../../imap/list.ts';
import { FolderExists, MailError } from '../../mail-wire/mail-error.ts';
import type { SyncContext } from '../context.ts';
import { type FolderState, insertFolders, loadFolders, readFolders } from '../store/folders.ts';
import { assertCurrent, chosenOf } from './choice.ts';

/** Names that mail programs know the folders of these roles by. */
const NAMES = { SENT: 'Sent', DRAFTS: 'Drafts', TRASH: 'Trash' } as const satisfies Partial<Record<FolderRole, string>>;

/**
 * The folder of that role; created at the top level where the provider has none. Its event is emitted once, even if the
 * watch sees the folder first.
 * @throws ApiError provider_rejected when the account does not include it
 */
export async function ensureRoleFolder(ctx: SyncContext, role: Role): Promise<FolderState> {
  const place = await placeOf(ctx, role);
  if (place.folder) return place.folder;
  throw new ApiError('provider_rejected', `the folders of this account do not include ${role}`);
}

type Role = keyof typeof NAMES;

/** Where the provider keeps the mail of a role; without `folder`: the account does not include it. */
export interface RolePlace {
  path: string;
  folder?: FolderState;
}

/** The place of that role; created at the top level where the provider has none. */
export async function placeOf(ctx: SyncContext, role: Role): Promise<RolePlace> {
  const existing = await folderOf(ctx, role);
  if (existing) return { path: existing.path, folder: existing };
  const { choice } = ctx.account;
  const atProvider = choice?.folders ? await roleAtProvider(ctx, role) : undefined;
  const path = atProvider?.path ?? folderPath(ctx.session, null, NAMES[role]);
  if (!atProvider) {
    await createFolder(ctx.session, path).catch((error: unknown) => {
      if (!(error instanceof FolderExists)) throw error;
    });
  }
  const listed = (await listFolders(ctx.session)).map((facts) => (facts.path === path ? { ...facts, role } : facts));
  const facts = listed.find((folder) => folder.path === path);
  if (!facts) throw new MailError('provider_error', 'imap', 'the IMAP server does not list a folder that it created');
  if (!chosenOf(choice?.folders, listed).includes(facts)) return { path };
  return { path, folder: await storeRoleFolder(ctx, facts) };
}

async function roleAtProvider(ctx: SyncContext, role: Role): Promise<FolderSnapshot | undefined> {
  return (await listFolders(ctx.session)).find((folder) => folder.role === role && folder.selectable);
}

async function storeRoleFolder(ctx: SyncContext, facts: FolderSnapshot): Promise<FolderState> {
  const { path, role } = facts;
  const status = await statusOf(ctx.session, path);
  const now = new Date();
  await inLease(ctx.db, ctx.lease, async (tx) => {
    const stored = await loadFolders(tx, ctx.account.id);
    if (stored.some((folder) => folder.path === path)) return;
    const mode = await assertCurrent(tx, ctx.account.id, ctx.account.choice);
    const inserted = await insertFolders(tx, ctx.account.id, [{ ...facts, status }], {
      now,
      mode,
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
