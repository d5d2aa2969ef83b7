import { ApiError } from '../../contract/errors.ts';
import { createFolder as create, folderPath, renameFolder } from '../../imap/change-folders.ts';
import { findFolder, listFolders, statusOf } from '../../imap/list.ts';
import { FolderExists, FolderMissing, MailError } from '../../mail-wire/mail-error.ts';
import type { SyncContext } from '../context.ts';
import { type FolderState, loadFolders } from '../store/folders.ts';
import { syncOnce } from '../sync-pass.ts';
import { applyPlan } from './apply.ts';
import { chosenOf } from './choice.ts';
import { type FolderPlan, planFolders } from './plan.ts';
import { reservedRenames } from './renames.ts';
import { abandonReservation, reservePath, releaseReservations } from './reservations.ts';

/*
 * Creates or renames a folder. A crash may follow any numbered step; the next attempt finds the reservation, and treats
 * the folder at its path as the reserved one.
 * 1. commit which folder the new path is for
 * 2. CREATE or RENAME
 * 3. commit the folder with its event, unless the watching activity has done so
 */

export interface NewFolder {
  name: string;
  /** null: at the top */
  parentId: string | null;
}

/** Fields that are left out stay unchanged. */
export type FolderChange = Partial<NewFolder>;

/** Attempts at a folder that others keep renaming. */
const ATTEMPTS = 3;

/**
 * Creates a folder with the given id.
 * @throws ApiError invalid_parameters, not_found (the parent), already_exists; MailError
 */
export async function createFolder(ctx: SyncContext, folderId: string, wanted: NewFolder): Promise<void> {
  const stored = await loadBelow(ctx, wanted.parentId);
  if (stored.some(({ id }) => id === folderId)) return;
  const path = pathOf(ctx, wanted, stored);
  if (!isChosen(ctx, { to: path }, stored)) throw notChosen();
  await bringToPath(ctx, folderId, path, async () => create(ctx.session, path));
}

/**
 * Renames a folder, or moves it into another one, with the folders in it.
 * @throws ApiError not_found, provider_rejected, invalid_parameters, already_exists; MailError
 */
export async function changeFolder(ctx: SyncContext, folderId: string, wanted: FolderChange): Promise<void> {
  for (let attempt = 0; ; attempt++) {
    const stored = await loadBelow(ctx, wanted.parentId);
    const folder = changeable(stored, folderId);
    const path = changedPath(ctx, folder, wanted, stored);
    if (path === folder.path) return;
    if (!isChosen(ctx, { from: folder.path, to: path }, stored)) throw notChosen();
    try {
      return await bringToPath(ctx, folderId, path, () => renameFolder(ctx.session, folder.path, path));
    } catch (error) {
      if (!(error instanceof FolderMissing) || attempt === ATTEMPTS) throw error;
      // Another program has renamed or deleted it.
      await syncOnce(ctx, {});
    }
  }
}

/**
 * The stored folders, to put one into that parent; after a sync if it is not at its stored path: some servers would create it there
 * again.
 */
async function loadBelow(ctx: SyncContext, parentId: string | null = null): Promise<FolderState[]> {
  const stored = await loadFolders(ctx.db, ctx.account.id);
  const parent = stored.find(({ id }) => id === parentId);
  if (!parent || (await findFolder(ctx.session, parent.path))) return stored;
  await syncOnce(ctx, {});
  return loadFolders(ctx.db, ctx.account.id);
}

/**
 * Whether the account includes the path of a new folder; or, of one that moves, this and the paths of the folders in it. The mail of
 * a folder that it does not include leaves the store.
 */
export function isChosen(
  { account, session }: SyncContext,
  { from, to }: { from?: string; to: string },
  stored: FolderState[],
): boolean {
  const delimiter = session.client.namespace?.delimiter ?? '/';
  const isMoving = ({ path }: FolderState) => from !== undefined && `${path}${delimiter}`.startsWith(from + delimiter);
  const moved = stored
    .filter(isMoving)
    .map((folder) => ({ ...folder, path: to + folder.path.slice((from ?? '').length) }));
  const placed = from === undefined ? [{ path: to, delimiter, role: 'UNKNOWN' }] : moved;
  const others = stored.filter((folder) => !isMoving(folder));
  const chosen = new Set(chosenOf(account.choice?.folders, [...others, ...placed]));
  return placed.every((folder) => chosen.has(folder));
}

function notChosen(): ApiError {
  return new ApiError('invalid_parameters', 'name: the folders of this account do not include one with this path');
}

/** The folder that will be changed. Throws ApiError not_found; provider_rejected for one with a role. */
export function changeable(stored: FolderState[], folderId: string): FolderState {
  const folder = stored.find(({ id }) => id === folderId);
  if (!folder) throw new ApiError('not_found', 'no folder has this id');
  if (folder.role !== 'UNKNOWN') {
    throw new ApiError(
      'provider_rejected',
      `a folder with the role ${folder.role} cannot be renamed, moved or deleted`,
    );
  }
  return folder;
}

/** Steps 1 to 3. */
export async function bringToPath(
  ctx: SyncContext,
  folderId: string,
  path: string,
  bring: () => Promise<void>,
): Promise<void> {
  if (await isTaken(ctx, path)) await syncOnce(ctx, {});
  if (await isTaken(ctx, path)) throw nameTaken();
  // 1.
  const reservation = await reservePath(ctx.db, ctx.lease, { path, folderId });
  if (reservation === 'taken') throw nameTaken();
  try {
    // 2.
    await bring();
  } catch (error) {
    const refused = error instanceof MailError && error.refused;
    // found by its new path, whatever the server replied: an earlier attempt may have created it
    const doneBefore = reservation === 'again' && refused && (await findFolder(ctx.session, path)) !== undefined;
    if (!doneBefore) {
      if (refused) await releaseReservations(ctx.db, ctx.account.id, [path]);
      // the connection was lost: the command may have succeeded, and the next call for this path checks that
      else await abandonReservation(ctx.db, ctx.account.id, path);
      throw error instanceof FolderExists ? nameTaken() : error;
    }
  }
  // 3.
  await commitAtPath(ctx, path, folderId);
}

/** Commits the folder at its new path, and the paths of those in it. */
async function commitAtPath(ctx: SyncContext, path: string, folderId: string): Promise<void> {
  for (;;) {
    const stored = await loadFolders(ctx.db, ctx.account.id);
    const listed = await listFolders(ctx.session);
    const facts = listed.find((each) => each.path === path);
    if (!facts) throw new MailError('provider_error', 'imap', 'the IMAP server does not list the folder');
    const renamed = reservedRenames(stored, listed, new Map([[path, folderId]]));
    const plan = planFolders(stored, listed, renamed);
    // The rest of the list is left to the watch, which recognises other renamed folders by their counters.
    const own: FolderPlan = {
      created: plan.created.filter((each) => each.path === path),
      changed: plan.changed.filter(({ folder }) => renamed.has(folder.path)),
      deleted: [],
      kept: [],
    };
    if (own.created.length > 0) facts.status = await statusOf(ctx.session, path);
    if (await applyPlan(ctx, own, stored)) return;
  }
}

async function isTaken(ctx: SyncContext, path: string): Promise<boolean> {
  return (await loadFolders(ctx.db, ctx.account.id)).some((folder) => folder.path === path);
}

function nameTaken(): ApiError {
  return new ApiError('already_exists', 'a folder with this name already exists');
}

/** The path of a folder after a change. Throws ApiError invalid_parameters, not_found, provider_rejected. */
function changedPath(ctx: SyncContext, folder: FolderState, wanted: FolderChange, stored: FolderState[]): string {
  const { name = folder.name, parentId = folder.parentId } = wanted;
  if (parentId === folder.parentId) return name === folder.name ? folder.path : pathBeside(ctx, folder, name);
  if (parentId !== null && isWithin(stored, parentId, folder)) {
    throw new ApiError('invalid_parameters', 'parent_id: a folder cannot be within itself');
  }
  return pathOf(ctx, { name, parentId }, stored);
}

/** The path for a name below a parent. Throws ApiError invalid_parameters, not_found, provider_rejected. */
function pathOf({ session }: SyncContext, { name, parentId }: NewFolder, stored: FolderState[]): string {
  const parent = parentId === null ? undefined : stored.find(({ id }) => id === parentId);
  if (parentId !== null && !parent) throw new ApiError('not_found', 'parent_id: no folder has this id');
  if (parent && parent.delimiter === null) {
    throw new ApiError('provider_rejected', 'parent_id: this folder cannot hold folders');
  }
  assertName(name, parent?.delimiter ?? session.client.namespace?.delimiter ?? '/');
  return folderPath(session, parent?.path ?? null, name);
}

/**
 * The path for a name in the place of a folder. The one above need not be stored: the account may not include it, or the server may
 * not list it. Throws ApiError invalid_parameters.
 */
export function pathBeside({ session }: SyncContext, folder: FolderState, name: string): string {
  assertName(name, folder.delimiter ?? session.client.namespace?.delimiter ?? '/');
  const above = folder.path.slice(0, folder.path.length - folder.name.length);
  // with a prefix, it may be that of another namespace than the personal one
  return above === '' ? folderPath(session, null, name) : above + name;
}

function assertName(name: string, delimiter: string): void {
  if (!name.includes(delimiter)) return;
  throw new ApiError('invalid_parameters', `name must not contain ${delimiter}, which separates folders here`);
}

function isWithin(stored: FolderState[], folderId: string, folder: FolderState): boolean {
  let at: string | null = folderId;
  for (let depth = 0; at !== null && depth <= stored.length; depth++) {
    if (at === folder.id) return true;
    at = stored.find(({ id }) => id === at)?.parentId ?? null;
  }
  return false;
}
