import { inLease } from '../../db/lease.ts';
import { fetchMetaOf, MAX_UID } from '../../imap/fetch.ts';
import { searchUids } from '../../imap/search.ts';
import { trySelect } from '../../imap/select.ts';
import { type FolderStatus, listFoldersWithStatus } from '../../imap/list.ts';
import type { SyncContext } from '../context.ts';
import {
  type FolderFacts,
  type FolderState,
  loadDeletedFolders,
  loadFolders,
  saveStatusCounters,
} from '../store/folders.ts';
import { newestLocations } from '../store/locations.ts';
import { applyPlan, changedSince } from './apply.ts';
import {
  reservedRenames,
  type FolderPlan,
  planFolders,
  type RenameCandidate,
  renameCandidates,
  renamedParents,
} from './plan.ts';
import { loadReservations } from './reservations.ts';

/** What a pass over the folder list found. */
export interface FolderListPass {
  folders: Map<string, FolderState>;
  /** ids of folders whose counters say that something changed */
  dirty: Set<string>;
  /** the counters of the dirty folders */
  counters: Map<string, FolderStatus>;
  /** a folder with mail was deleted */
  missing: boolean;
}

/** Messages that are compared before a folder is believed to be a renamed one. */
const SAMPLES = 5;

/** Messages whose metadata is in memory at one time. */
const METAS_AT_ONCE = 1_000;

/**
 * The list of a connection that is in use lacks a stored folder. Some servers leave a folder out for good when it was
 * renamed just while they listed: what is missing is believed on a connection of its own only.
 */
export class DoubtfulList extends Error {
  override readonly name = 'DoubtfulList';
}

/**
 * Compares the folder list with its counters: saves what was created, renamed and deleted with their events, and returns
 * which folders changed inside.
 * @throws DoubtfulList when a folder is missing on a connection that was not opened for this pass
 */
export async function syncFolders(ctx: SyncContext, { freshSession = false } = {}): Promise<FolderListPass> {
  for (;;) {
    const pass = await listOnce(ctx, freshSession);
    if (pass) return pass;
  }
}

/** Undefined: this API changed the folders while they were listed, so the list may be from before. */
async function listOnce(ctx: SyncContext, freshSession: boolean): Promise<FolderListPass | undefined> {
  const stored = await loadFolders(ctx.db, ctx.account.id);
  const listed = await listFoldersWithStatus(ctx.session);
  const renamed = await findRenames(ctx, stored, listed);
  const plan = planFolders(stored, listed, renamed);
  const isDoubtful = plan.deleted.length > 0 && !freshSession;
  // Those whose deletion was seen before, and has not been finished.
  plan.deleted.push(...(await loadDeletedFolders(ctx.db, ctx.account.id)));
  let missing = false;
  if (plan.created.length + plan.changed.length + plan.deleted.length > 0) {
    if (changedSince(stored, await loadFolders(ctx.db, ctx.account.id))) return undefined;
    if (isDoubtful) throw new DoubtfulList('a folder is missing from the list');
    const applied = await applyPlan(ctx, plan, stored);
    if (!applied) return undefined;
    missing = applied.missing;
  }
  const dirty = new Set(plan.kept.filter(({ folder, facts }) => isDirty(folder, facts)).map(({ folder }) => folder.id));
  for (const { folder } of plan.changed) dirty.add(folder.id);
  await saveCounters(ctx, plan, dirty);
  const folders = new Map((await loadFolders(ctx.db, ctx.account.id)).map((folder) => [folder.id, folder]));
  const before = new Set(stored.map((folder) => folder.id));
  for (const folder of folders.values()) if (!before.has(folder.id) && folder.totalCount > 0) dirty.add(folder.id);
  const counters = new Map(
    plan.kept.flatMap(({ folder, facts }) => (dirty.has(folder.id) && facts.status ? [[folder.id, facts.status]] : [])),
  );
  return { folders, dirty, counters, missing };
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
  const renamed = reservedRenames(stored, listed, await loadReservations(ctx.db, ctx.account.id));
  const taken = new Set(renamed.values());
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
  const samples = await newestLocations(ctx.db, folder.id, SAMPLES);
  if (samples.length === 0) {
    // Nothing stored to compare: with its validity kept and no other that could be meant, it is the same.
    return sameValidity && rivals === 0 && facts.status?.uidNext === folder.uidNext;
  }
  if (!(await trySelect(ctx.session, facts.path))) return false;
  if (!sameValidity) {
    const identities = new Set(samples.map((sample) => sample.identity));
    return holdsAll(ctx, identities);
  }
  const metas = await fetchMetaOf(
    ctx.session,
    samples.map((sample) => sample.uid),
  );
  const identityOf = new Map(metas.map((meta) => [meta.uid, meta.identity]));
  return samples.some((sample) => identityOf.get(sample.uid) === sample.identity);
}

/** Whether the selected folder holds messages of all these identities; asks for the newest first, some at a time. */
async function holdsAll(ctx: SyncContext, identities: ReadonlySet<string>): Promise<boolean> {
  const wanted = new Set(identities);
  const uids = await searchUids(ctx.session, MAX_UID + 1);
  for (let end = uids.length; end > 0 && wanted.size > 0; end -= METAS_AT_ONCE) {
    const metas = await fetchMetaOf(ctx.session, uids.slice(Math.max(0, end - METAS_AT_ONCE), end));
    for (const meta of metas) wanted.delete(meta.identity);
  }
  return wanted.size === 0;
}

/**
 * Saves the counters of a folder in which its pass found nothing to do. What made it dirty is then a counter that was
 * stored wrong, or that the server counts in another way. `folder` is as it was when it was listed.
 */
export function saveUnexplained(ctx: SyncContext, folder: FolderState, status: FolderStatus): Promise<void> {
  return inLease(ctx.db, ctx.lease, (tx) => saveStatusCounters(tx, folder, status));
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
    for (const { folder, facts } of differing) if (facts.status) await saveStatusCounters(tx, folder, facts.status);
  });
}
