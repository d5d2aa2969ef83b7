import type { EventType } from '../../contract/events.ts';
import type { Folder } from '../../contract/folder.ts';
import type { Tx } from '../../db/client.ts';
import { inLease } from '../../db/lease.ts';
import { recordEvents } from '../../db/outbox.ts';
import { changeEmails } from '../change-emails.ts';
import type { SyncContext } from '../context.ts';
import {
  deleteFolders,
  type FolderState,
  insertFolders,
  loadFolders,
  parentIdOf,
  readFolders,
  updateFolder,
} from '../store/folders.ts';
import { emailsIn, vacateFolder } from '../store/locations.ts';
import type { FolderPlan } from './plan.ts';
import { releaseReservations, loadReservations } from './reservations.ts';

/**
 * Saves a plan with its events, made from the folders as they were stored then; `missing`: mail lay in a folder that is
 * gone. Undefined when others, the watch or a call, have changed the folders since: nothing is saved.
 */
export function applyPlan(
  ctx: SyncContext,
  plan: FolderPlan,
  stored: FolderState[],
): Promise<{ missing: boolean } | undefined> {
  return inLease(ctx.db, ctx.lease, async (tx) => {
    if (changedSince(stored, await loadFolders(tx, ctx.account.id))) return undefined;
    return { missing: await save(tx, ctx, plan, stored) };
  });
}

/** Whether folders came, went, or got another path. */
export function changedSince(before: FolderState[], now: FolderState[]): boolean {
  const paths = new Map(before.map(({ id, path }) => [id, path]));
  return now.length !== before.length || now.some(({ id, path }) => paths.get(id) !== path);
}

/** True when mail lay in a folder that is gone. */
async function save(tx: Tx, ctx: SyncContext, plan: FolderPlan, stored: FolderState[]): Promise<boolean> {
  const now = new Date();
  const accountId = ctx.account.id;
  const tell = (type: EventType, folder: Folder) => ({ type, objectId: folder.id, data: { folder }, createdAt: now });
  const gone = new Set(plan.deleted.map((folder) => folder.id));
  const goneFolders = await readFolders(tx, [...gone]);

  const paths = stored.filter((folder) => !gone.has(folder.id)).map(({ id, path }) => ({ id, path }));
  for (const { folder, facts } of plan.changed) {
    const entry = paths.find((path) => path.id === folder.id);
    if (entry) entry.path = facts.path;
  }
  // Two folders may have swapped their names: free all paths before any is given.
  for (const { folder } of plan.changed) await updateFolder(tx, folder.id, { path: `\u0001${folder.id}` });
  await deleteFoldersWithMail(tx, ctx, plan.deleted, now);
  // A parent that was deleted while it has children stays as a name (RFC 3501 6.3.4): its mail is gone.
  const emptied = plan.changed.filter(({ folder, facts }) => folder.selectable && !facts.selectable);
  await forgetMailOf(
    tx,
    ctx,
    emptied.map(({ folder }) => folder),
    now,
  );
  for (const { folder, facts } of plan.changed) {
    // A name that became a folder: all in it has come since.
    if (!folder.selectable && facts.selectable) await updateFolder(tx, folder.id, FROM_THE_START);
  }
  const claims = await loadReservations(tx, accountId);
  const created = await insertFolders(tx, accountId, plan.created, paths, now, 'new', claims);
  const idByPath = new Map([...paths, ...created].map(({ id, path }) => [path, id]));
  for (const { folder, facts } of plan.changed) {
    const { path, delimiter, name, role, selectable } = facts;
    await updateFolder(tx, folder.id, {
      path,
      delimiter,
      name,
      role,
      selectable,
      parentId: parentIdOf(facts, idByPath),
    });
  }
  const visible = plan.changed.filter(
    ({ folder, facts }) =>
      facts.name !== folder.name || facts.role !== folder.role || parentIdOf(facts, idByPath) !== folder.parentId,
  );
  await recordEvents(tx, accountId, [
    ...goneFolders.map((folder) => tell('email.folder.delete', folder)),
    ...(
      await readFolders(
        tx,
        visible.map(({ folder }) => folder.id),
      )
    ).map((folder) => tell('email.folder.update', folder)),
    ...(
      await readFolders(
        tx,
        created.map(({ id }) => id),
      )
    ).map((folder) => tell('email.folder.create', folder)),
  ]);
  await releaseReservations(
    tx,
    accountId,
    [...plan.created, ...plan.changed.map(({ facts }) => facts)].map(({ path }) => path),
  );
  return [...plan.deleted, ...emptied.map(({ folder }) => folder)].some((folder) => folder.totalCount > 0);
}

const FROM_THE_START = { uidValidity: 0, uidNext: 1, baselineUidNext: 1, scannedFrom: 1 };

async function forgetMailOf(tx: Tx, ctx: SyncContext, gone: FolderState[], now: Date): Promise<void> {
  for (const folder of gone) {
    const emailIds = await emailsIn(tx, folder.id);
    await changeEmails(tx, ctx.lease, emailIds, now, () => vacateFolder(tx, folder.id, now));
  }
}

/** Removes folders; what lay in them counts as vanished until it is known where it went. */
export async function deleteFoldersWithMail(
  tx: Tx,
  ctx: SyncContext,
  deleted: FolderState[],
  now: Date,
): Promise<void> {
  await forgetMailOf(tx, ctx, deleted, now);
  await deleteFolders(
    tx,
    deleted.map((folder) => folder.id),
  );
}
