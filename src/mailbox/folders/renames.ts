import { fetchMetaOf } from '../../imap/fetch.ts';
import { listUids } from '../../imap/list-uids.ts';
import type { SyncContext } from '../context.ts';
import { withSelected } from '../selected.ts';
import type { FolderFacts, FolderState } from '../store/folders.ts';
import { newestLocations } from '../store/locations.ts';
import { type FolderPlan, isDemoted } from './plan.ts';
import { loadReservations, type PathReservation } from './reservations.ts';

/** Messages that are compared before two folders are treated as one renamed folder. */
const SAMPLES = 5;

/** Messages whose metadata is in memory at one time. */
const METAS_AT_ONCE = 1_000;

/**
 * The stored folders that are not at their paths, as far as a list shows. A name that holds no mail any longer counts as absent:
 * where a server renames a folder before those in it (Maildir++), its name stays until they have followed.
 */
function absentFrom(listed: Pick<FolderFacts, 'path' | 'selectable'>[], stored: FolderState[]): Set<FolderState> {
  const byPath = new Map(listed.map((facts) => [facts.path, facts]));
  return new Set(
    stored.filter((folder) => {
      const facts = byPath.get(folder.path);
      return !facts || isDemoted({ folder, facts });
    }),
  );
}

/**
 * Maps stored paths to the listed ones that they were renamed to; each candidate with mail is compared message by message.
 */
export async function findRenames(
  ctx: SyncContext,
  stored: FolderState[],
  listed: FolderFacts[],
): Promise<Map<string, string>> {
  if (absentFrom(listed, stored).size === 0) return new Map();
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
  const isSame = async () => {
    if (!sameValidity) return holdsAll(ctx, new Set(samples.map((sample) => sample.identity)));
    const metas = await fetchMetaOf(
      ctx.session,
      samples.map((sample) => sample.uid),
    );
    const identityOf = new Map(metas.map((meta) => [meta.uid, meta.identity]));
    return samples.some((sample) => identityOf.get(sample.uid) === sample.identity);
  };
  return (await withSelected(ctx.session, facts.path, isSame)) ?? false;
}

/** Whether the selected folder holds messages of all these identities; asks for the newest first, some at a time. */
async function holdsAll(ctx: SyncContext, identities: ReadonlySet<string>): Promise<boolean> {
  const wanted = new Set(identities);
  const { uids } = await listUids(ctx.session);
  for (let end = uids.length; end > 0 && wanted.size > 0; end -= METAS_AT_ONCE) {
    const metas = await fetchMetaOf(ctx.session, uids.slice(Math.max(0, end - METAS_AT_ONCE), end));
    for (const meta of metas) wanted.delete(meta.identity);
  }
  return wanted.size === 0;
}

/** A stored folder that is missing in the list and a new one that may be the same. */
export interface RenameCandidate {
  folder: FolderState;
  facts: FolderFacts;
  /** surer ones first: whether UIDVALIDITY was kept */
  sameValidity: boolean;
}

/**
 * Which new folders may be renamed old ones. A rename keeps UIDVALIDITY and UIDNEXT on most servers; where it does not,
 * the number of messages must be equal, and the caller compares them. Folders without mail (\Noselect) follow their
 * children. A folder that is being vacated is deleted, or has no mail to compare.
 */
export function renameCandidates(stored: FolderState[], listed: FolderFacts[]): RenameCandidate[] {
  const storedPaths = new Set(stored.map((folder) => folder.path));
  const missing = [...absentFrom(listed, stored)].filter((folder) => !folder.vacating);
  const fresh = listed.filter((facts) => !storedPaths.has(facts.path));
  const pairs: RenameCandidate[] = [];
  for (const folder of missing) {
    for (const facts of fresh) {
      if (!facts.status || !folder.selectable || folder.uidNext === null) continue;
      const sameValidity = facts.status.uidValidity === folder.uidValidity && facts.status.uidNext >= folder.uidNext;
      if (sameValidity || (folder.totalCount > 0 && facts.status.messages === folder.totalCount)) {
        pairs.push({ folder, facts, sameValidity });
      }
    }
  }
  return pairs.sort((a, b) => likeness(b) - likeness(a));
}

function likeness({ folder, facts, sameValidity }: RenameCandidate): number {
  const sameCount = facts.status?.messages === folder.totalCount;
  return (sameValidity ? 4 : 0) + (sameCount ? 2 : 0) + (facts.name === folder.name ? 1 : 0);
}

/**
 * Maps stored paths to the paths that are reserved for their folders (see src/mailbox/folders/reservations.ts), with the
 * folders in them.
 */
export function reservedRenames(
  stored: FolderState[],
  listed: Pick<FolderFacts, 'path' | 'selectable'>[],
  reservations: ReadonlyMap<string, string>,
): Map<string, string> {
  const byPath = new Map(listed.map((facts) => [facts.path, facts]));
  const absent = absentFrom(listed, stored);
  const renamed = new Map<string, string>();
  for (const [to, folderId] of reservations) {
    const folder = stored.find((each) => each.id === folderId);
    if (!folder || !absent.has(folder)) continue;
    const below = `${folder.path}${folder.delimiter ?? ''}`;
    for (const each of absent) {
      const { path } = each;
      if (path !== folder.path && !(folder.delimiter && path.startsWith(below))) continue;
      const facts = byPath.get(to + path.slice(folder.path.length));
      if (facts && !isDemoted({ folder: each, facts })) renamed.set(path, facts.path);
    }
  }
  return renamed;
}

/**
 * The plan without the folders that a call of this API is renaming, and those in them: a list that was requested during
 * the rename may show them at neither path, or at both. A later pass, or that call, saves where they are.
 */
export function withoutOngoing(plan: FolderPlan, stored: FolderState[], ongoing: PathReservation[]): FolderPlan {
  const moving = ongoing.flatMap(({ path: to, folderId }) => {
    const folder = stored.find(({ id }) => id === folderId);
    return folder ? [{ from: folder.path, to, delimiter: folder.delimiter }] : [];
  });
  const isMoving = (path: string, end: 'from' | 'to') =>
    moving.some((each) => path === each[end] || (each.delimiter && path.startsWith(each[end] + each.delimiter)));
  return {
    ...plan,
    created: plan.created.filter(
      ({ path, selectable }) => !isMoving(path, 'to') && (selectable || !isMoving(path, 'from')),
    ),
    changed: plan.changed.filter(({ facts }) => !isMoving(facts.path, 'from')),
    deleted: plan.deleted.filter(({ path }) => !isMoving(path, 'from')),
  };
}

/** Paths of parents without mail that moved along with their children. */
export function renamedParents(
  stored: FolderState[],
  listed: FolderFacts[],
  renamed: Map<string, string>,
): Map<string, string> {
  const listedPaths = new Set(listed.map((facts) => facts.path));
  const storedPaths = new Set(stored.map((folder) => folder.path));
  const parents = new Map<string, string>();
  for (const [from, to] of renamed) {
    const folder = stored.find((each) => each.path === from);
    const delimiter = folder?.delimiter;
    if (!delimiter) continue;
    const before = from.split(delimiter);
    const after = to.split(delimiter);
    while (before.length > 1 && after.length > 1 && before.pop() === after.pop()) {
      const [oldParent, newParent] = [before.join(delimiter), after.join(delimiter)];
      const parent = stored.find((each) => each.path === oldParent);
      if (
        oldParent === newParent ||
        !parent ||
        parent.selectable ||
        listedPaths.has(oldParent) ||
        !listedPaths.has(newParent) ||
        storedPaths.has(newParent)
      )
        break;
      parents.set(oldParent, newParent);
    }
  }
  return parents;
}
