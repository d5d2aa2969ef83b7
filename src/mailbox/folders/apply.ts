import type { EventType } from '../../contract/events.ts';
import type { Folder } from '../../contract/folder.ts';
import type { Tx } from '../../db/driver/client.ts';
import { inLease } from '../../db/coordination/lease.ts';
import { type NewEvent, recordEvents } from '../../db/outbox.ts';
import { NO_UIDVALIDITY } from '../../imap/uidvalidity.ts';
import type { SyncContext } from '../context.ts';
import {
  deleteFolders,
  type FolderState,
  freePaths,
  insertFolders,
  loadFolders,
  type NewFolders,
  parentIdOf,
  readFolders,
  saveFacts,
  updateFolder,
} from '../store/folders.ts';
import { assertCurrent } from './choice.ts';
import { importAdded } from './exclude.ts';
import { type FolderPlan, isDemoted } from './plan.ts';
import { loadReservations, releaseReservations } from './reservations.ts';
import { areVacated, clearVacating, markVacating, vacateFolder } from './vacate.ts';

/** The part of a context that saves a plan. */
export type PlanContext = Pick<SyncContext, 'db' | 'lease' | 'account' | 'storage'>;

/**
 * Saves a plan with its events, made from the folders as they were `stored` then. The mail of folders that are deleted or
 * can no longer hold mail is removed first, in separate transactions: see vacate.ts. `missing`: such a folder held mail.
 * Undefined when the watch or a call has changed the folders since: the rest is not saved.
 */
export async function applyPlan(
  ctx: PlanContext,
  plan: FolderPlan,
  stored: FolderState[],
): Promise<{ missing: boolean } | undefined> {
  const leaving = [...plan.deleted, ...emptiedBy(plan)];
  if (!(await vacateAll(ctx, plan, stored))) return undefined;
  const saved = await inLease(ctx.db, ctx.lease, async (tx) => {
    const remaining = stored.filter(({ id }) => !plan.deleted.some((folder) => folder.id === id));
    if (changedSince(remaining, await loadFolders(tx, ctx.account.id))) return false;
    if (!(await areVacated(tx, ctx, idsOf(leaving)))) return false;
    const mode = plan.created.length > 0 ? await assertCurrent(tx, ctx.account.id, ctx.account.choice) : 'new';
    await save(tx, ctx.account.id, plan, { remaining, mode });
    return true;
  });
  return saved ? { missing: leaving.some((folder) => folder.totalCount > 0) } : undefined;
}

/** Whether folders were created, deleted, or got another path. */
export function changedSince(before: FolderState[], now: FolderState[]): boolean {
  const paths = new Map(before.map(({ id, path }) => [id, path]));
  return now.length !== before.length || now.some(({ id, path }) => paths.get(id) !== path);
}

/** A parent that was deleted while it has children stays as a name (RFC 3501 6.3.4): its mail is deleted. */
function emptiedBy(plan: FolderPlan): FolderState[] {
  return plan.changed.filter((each) => each.folder.vacating || isDemoted(each)).map(({ folder }) => folder);
}

/** False: the folders were changed since, nothing is saved. */
async function vacateAll(ctx: PlanContext, plan: FolderPlan, stored: FolderState[]): Promise<boolean> {
  const emptied = emptiedBy(plan);
  if (plan.deleted.length + emptied.length === 0) return true;
  const marked = await inLease(ctx.db, ctx.lease, async (tx) => {
    if (changedSince(stored, await loadFolders(tx, ctx.account.id))) return false;
    await markVacating(tx, idsOf(plan.deleted), 'deletion');
    await markVacating(tx, idsOf(emptied), 'noselect');
    return true;
  });
  if (marked) for (const { id } of [...plan.deleted, ...emptied]) await vacateFolder(ctx, id);
  return marked;
}

function idsOf(folders: FolderState[]): string[] {
  return folders.map(({ id }) => id);
}

/** A name that became a folder: all mail in it arrived since. */
const FROM_THE_START = { uidValidity: NO_UIDVALIDITY, uidNext: 1, baselineUidNext: 1, scannedFrom: 1 };

async function save(
  tx: Tx,
  accountId: string,
  plan: FolderPlan,
  { remaining, mode }: Pick<NewFolders, 'mode'> & { remaining: FolderState[] },
): Promise<void> {
  const now = new Date();
  // Another sync pass may have deleted them, with their events.
  const deleted = await readFolders(tx, idsOf(plan.deleted));
  await deleteFolders(tx, idsOf(plan.deleted));
  await clearVacating(tx, idsOf(emptiedBy(plan)));
  for (const { folder, facts } of plan.changed) {
    if (facts.selectable && (!folder.selectable || folder.vacating)) await updateFolder(tx, folder.id, FROM_THE_START);
  }
  const newPaths = new Map(plan.changed.map(({ folder, facts }) => [folder.id, facts.path]));
  const paths = remaining.map(({ id, path }) => ({ id, path: newPaths.get(id) ?? path }));
  const saved = await saveRemaining(tx, accountId, plan, { paths, now, mode });
  if (mode === 'baseline') await importAdded(tx, accountId, saved.created);
  const visible = saved.changed.filter(
    ({ folder, name, role, parentId }) => name !== folder.name || role !== folder.role || parentId !== folder.parentId,
  );
  await recordEvents(tx, accountId, [
    ...eventsOf('email.folder.delete', deleted, now),
    ...eventsOf(
      'email.folder.update',
      await readFolders(
        tx,
        visible.map(({ id }) => id),
      ),
      now,
    ),
    ...eventsOf('email.folder.create', await readFolders(tx, idsOf(saved.created)), now),
  ]);
}

/** Saves new folders and the changes of others. `paths` are those that the folders have from now on. */
async function saveRemaining(
  tx: Tx,
  accountId: string,
  plan: FolderPlan,
  { paths, now, mode }: { paths: { id: string; path: string }[] } & Pick<NewFolders, 'now' | 'mode'>,
) {
  const deleted = new Set(idsOf(plan.deleted));
  // The id of a folder whose deletion is being reported is not used again.
  const reservations = new Map([...(await loadReservations(tx, accountId))].filter(([, id]) => !deleted.has(id)));
  await freePaths(
    tx,
    plan.changed.map(({ folder }) => folder.id),
  );
  const created = await insertFolders(tx, accountId, plan.created, {
    now,
    mode,
    existing: paths,
    reservations,
  });
  const idByPath = new Map([...paths, ...created].map(({ id, path }) => [path, id]));
  const changed = plan.changed.map(({ folder, facts }) => ({
    ...facts,
    folder,
    id: folder.id,
    parentId: parentIdOf(facts, idByPath),
  }));
  await saveFacts(tx, changed);
  const taken = [...plan.created, ...plan.changed.map(({ facts }) => facts)].map(({ path }) => path);
  await releaseReservations(tx, accountId, taken);
  return { created, changed };
}

function eventsOf(type: EventType, folders: Folder[], now: Date): NewEvent[] {
  return folders.map((folder) => ({ type, objectId: folder.id, data: { folder }, createdAt: now }));
}
