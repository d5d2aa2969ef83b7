import type { EventType } from '../contract/events.ts';
import type { Folder } from '../contract/folder.ts';
import type { Tx } from '../db/client.ts';
import { inLease } from '../db/lease.ts';
import { recordEvents } from '../db/outbox.ts';
import {
  deleteFolders,
  type FolderFacts,
  type FolderState,
  insertFolders,
  loadFolders,
  parentIdOf,
  readFolders,
  updateFolder,
} from '../db/sync-folders.ts';
import { emailsIn, markFolderVanished, placementsOf } from '../db/sync-placements.ts';
import { fetchMeta, fetchMetaOf, trySelect } from '../mail/fetch.ts';
import { listFoldersWithStatus } from '../mail/folders.ts';
import { changeEmails } from './change-emails.ts';
import type { SyncContext } from './context.ts';
import {
  type FolderPlan,
  planFolders,
  type RenameCandidate,
  renameCandidates,
  renamedParents,
} from './plan-folders.ts';

/** What a look at the folder list found. */
export interface FolderLook {
  folders: Map<string, FolderState>;
  /** ids of folders whose counters say that something changed */
  dirty: Set<string>;
  /** a folder with mail was deleted */
  missing: boolean;
}

/** Messages that are compared before a folder is believed to be a renamed one. */
const SAMPLES = 5;

/**
 * The list of a connection that is in use lacks a stored folder. Some servers leave a folder out for good when it was
 * renamed just while they listed: what is gone is believed on a connection of its own only.
 */
export class DoubtfulList extends Error {
  override readonly name = 'DoubtfulList';
}

/**
 * Looks at the folder list with its counters: saves what was created, renamed and deleted with their events, and says
 * which folders changed inside.
 * @throws DoubtfulList when a folder is missing on a connection that was not opened for this look
 */
export async function syncFolders(ctx: SyncContext): Promise<FolderLook> {
  const listed = await listFoldersWithStatus(ctx.session);
  const stored = await loadFolders(ctx.db, ctx.account.id);
  const renamed = await findRenames(ctx, stored, listed);
  const plan = planFolders(stored, listed, renamed);
  if (plan.deleted.length > 0 && !ctx.freshSession) throw new DoubtfulList('a folder is missing from the list');
  ctx.freshSession = false;
  const dirty = new Set(plan.kept.filter(({ folder, facts }) => isDirty(folder, facts)).map(({ folder }) => folder.id));
  for (const { folder } of plan.changed) dirty.add(folder.id);
  let missing = false;
  if (plan.created.length + plan.changed.length + plan.deleted.length > 0) {
    missing = await inLease(ctx.db, ctx.lease, (tx) => apply(tx, ctx, plan, stored));
  }
  await saveCounters(ctx, plan, dirty);
  const folders = new Map((await loadFolders(ctx.db, ctx.account.id)).map((folder) => [folder.id, folder]));
  const before = new Set(stored.map((folder) => folder.id));
  for (const folder of folders.values()) if (!before.has(folder.id) && folder.totalCount > 0) dirty.add(folder.id);
  return { folders, dirty, missing };
}

function isDirty(folder: FolderState, { status, selectable }: FolderFacts): boolean {
  if (!selectable || !status) return false;
  if (folder.uidNext === null || status.uidValidity !== folder.uidValidity || status.uidNext > folder.uidNext)
    return true;
  if (status.messages !== folder.totalCount) return true;
  return status.highestModseq === null
    ? status.unseen !== folder.unreadCount
    : status.highestModseq !== folder.highestModseq;
}

/** Which stored paths live on under which listed ones; each candidate with mail is compared message by message. */
async function findRenames(
  ctx: SyncContext,
  stored: FolderState[],
  listed: FolderFacts[],
): Promise<Map<string, string>> {
  const renamed = new Map<string, string>();
  const taken = new Set<string>();
  const candidates = renameCandidates(stored, listed);
  for (const candidate of candidates) {
    const { folder, facts } = candidate;
    if (renamed.has(folder.path) || taken.has(facts.path)) continue;
    const rivals = candidates.filter((other) => other.folder === folder || other.facts === facts).length - 1;
    if (!(await isSameFolder(ctx, candidate, rivals))) continue;
    renamed.set(folder.path, facts.path);
    taken.add(facts.path);
  }
  for (const [from, to] of renamedParents(stored, listed, renamed)) renamed.set(from, to);
  return renamed;
}

async function isSameFolder(
  ctx: SyncContext,
  { folder, facts, sameValidity }: RenameCandidate,
  rivals: number,
): Promise<boolean> {
  const placed = (await placementsOf(ctx.db, folder.id)).filter((placement) => !placement.vanishedAt);
  const samples = placed.slice(-SAMPLES);
  if (samples.length === 0) {
    // Nothing known to compare: with its validity kept and no other that could be meant, it is the same.
    return sameValidity && rivals === 0 && facts.status?.uidNext === folder.uidNext;
  }
  if (!(await trySelect(ctx.session, facts.path))) return false;
  if (sameValidity) {
    const there = new Map(
      (
        await fetchMetaOf(
          ctx.session,
          samples.map((sample) => sample.uid),
        )
      ).map((meta) => [meta.uid, meta]),
    );
    return samples.some((sample) => there.get(sample.uid)?.identity === sample.identity);
  }
  const identities = new Set((await fetchMeta(ctx.session, 1)).map((meta) => meta.identity));
  return samples.every((sample) => identities.has(sample.identity));
}

/** Saves a plan with its events; true when mail lay in a folder that is gone. */
async function apply(tx: Tx, ctx: SyncContext, plan: FolderPlan, stored: FolderState[]): Promise<boolean> {
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
  const created = await insertFolders(tx, accountId, plan.created, paths, now, 'new');
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
  return [...plan.deleted, ...emptied.map(({ folder }) => folder)].some((folder) => folder.totalCount > 0);
}

const FROM_THE_START = { uidValidity: 0, uidNext: 1, baselineUidNext: 1, scannedFrom: 1 };

async function forgetMailOf(tx: Tx, ctx: SyncContext, gone: FolderState[], now: Date): Promise<void> {
  for (const folder of gone) {
    const emailIds = await emailsIn(tx, folder.id);
    await changeEmails(tx, ctx.lease, emailIds, now, () => markFolderVanished(tx, folder.id, now));
  }
}

async function deleteFoldersWithMail(tx: Tx, ctx: SyncContext, deleted: FolderState[], now: Date): Promise<void> {
  await forgetMailOf(tx, ctx, deleted, now);
  await deleteFolders(
    tx,
    deleted.map((folder) => folder.id),
  );
}

/** The counters of folders that are not about to be synced, which counts by itself. */
async function saveCounters(ctx: SyncContext, plan: FolderPlan, dirty: Set<string>): Promise<void> {
  const differing = plan.kept.filter(
    ({ folder, facts }) =>
      !dirty.has(folder.id) &&
      facts.status &&
      (facts.status.messages !== folder.totalCount || facts.status.unseen !== folder.unreadCount),
  );
  if (differing.length === 0) return;
  await inLease(ctx.db, ctx.lease, async (tx) => {
    for (const { folder, facts } of differing) {
      await updateFolder(tx, folder.id, {
        totalCount: facts.status?.messages ?? 0,
        unreadCount: facts.status?.unseen ?? 0,
      });
    }
  });
}
