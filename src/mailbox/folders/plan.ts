import type { FolderFacts, FolderState } from '../store/folders.ts';

/** What has to be saved after the folder list was compared with the stored folders. */
export interface FolderPlan {
  created: FolderFacts[];
  /** same folder under another path, or with another role */
  changed: { folder: FolderState; facts: FolderFacts }[];
  deleted: FolderState[];
  /** unchanged ones with their counters */
  kept: { folder: FolderState; facts: FolderFacts }[];
}

/**
 * Compares the stored folders with the server's list. `renamed` says which of the stored paths that are missing in it live
 * on under which new path; see renameCandidates.
 */
export function planFolders(stored: FolderState[], listed: FolderFacts[], renamed: Map<string, string>): FolderPlan {
  const byPath = new Map(listed.map((facts) => [facts.path, facts]));
  const plan: FolderPlan = { created: [], changed: [], deleted: [], kept: [] };
  const paired = new Set<string>();
  for (const folder of stored) {
    const facts = byPath.get(renamed.get(folder.path) ?? folder.path);
    if (!facts) {
      plan.deleted.push(folder);
      continue;
    }
    paired.add(facts.path);
    // One that is being vacated is changed, whatever the list says of it now: its mail has to be taken out first.
    const same =
      !folder.vacating &&
      facts.path === folder.path &&
      facts.role === folder.role &&
      facts.selectable === folder.selectable;
    plan[same ? 'kept' : 'changed'].push({ folder, facts });
  }
  plan.created = listed.filter((facts) => !paired.has(facts.path));
  return plan;
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
 * the messages must be the same in number, and the caller compares them. Folders that hold no mail of their own
 * (\Noselect) follow their children. One that is being vacated is deleted, or has no mail to compare.
 */
export function renameCandidates(stored: FolderState[], listed: FolderFacts[]): RenameCandidate[] {
  const listedPaths = new Set(listed.map((facts) => facts.path));
  const storedPaths = new Set(stored.map((folder) => folder.path));
  const missing = stored.filter((folder) => !listedPaths.has(folder.path) && !folder.vacating);
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
 * Which stored paths live on under a path that is reserved for their folder (see src/mailbox/folders/reservations.ts), with the
 * folders in them.
 */
export function reservedRenames(
  stored: FolderState[],
  listed: Pick<FolderFacts, 'path'>[],
  reservations: ReadonlyMap<string, string>,
): Map<string, string> {
  const listedPaths = new Set(listed.map((facts) => facts.path));
  const renamed = new Map<string, string>();
  for (const [to, folderId] of reservations) {
    const folder = stored.find((each) => each.id === folderId);
    if (!folder || listedPaths.has(folder.path)) continue;
    const below = `${folder.path}${folder.delimiter ?? ''}`;
    for (const { path } of stored) {
      if (path !== folder.path && !(folder.delimiter && path.startsWith(below))) continue;
      const now = to + path.slice(folder.path.length);
      if (listedPaths.has(now) && !listedPaths.has(path)) renamed.set(path, now);
    }
  }
  return renamed;
}

/** Paths of parents without mail of their own that moved along with their children. */
export function renamedParents(
  stored: FolderState[],
  listed: FolderFacts[],
  renamed: Map<string, string>,
): Map<string, string> {
  const listedPaths = new Set(listed.map((facts) => facts.path));
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
        !listedPaths.has(newParent)
      )
        break;
      parents.set(oldParent, newParent);
    }
  }
  return parents;
}
