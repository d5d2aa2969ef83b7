import type { FolderFacts, FolderState } from '../store/folders.ts';

/** The changes to save after the folder list was compared with the stored folders. */
export interface FolderPlan {
  created: FolderFacts[];
  /** same folder under another path, in another one, or with another role */
  changed: { folder: FolderState; facts: FolderFacts }[];
  deleted: FolderState[];
  /** unchanged ones with their counters */
  kept: { folder: FolderState; facts: FolderFacts }[];
}

/** Whether a folder could hold mail, and the list shows a mere name in its place. */
export function isDemoted({
  folder,
  facts,
}: {
  folder: Pick<FolderState, 'selectable'>;
  facts: Pick<FolderFacts, 'selectable'>;
}): boolean {
  return folder.selectable && !facts.selectable;
}

/**
 * Compares the stored folders with the server's list. `renamed` maps stored paths that the list lacks to the new paths of
 * their folders; see renameCandidates.
 */
export function planFolders(stored: FolderState[], listed: FolderFacts[], renamed: Map<string, string>): FolderPlan {
  const byPath = new Map(listed.map((facts) => [facts.path, facts]));
  const plan: FolderPlan = { created: [], changed: [], deleted: [], kept: [] };
  const paired = new Set<string>();
  const idByPath = new Map(stored.map((folder) => [renamed.get(folder.path) ?? folder.path, folder.id]));
  // What was deleted while the server lists the folders in it still is the parent of none; what was created may be.
  const isIn = (parentId: string | null, { parentPath }: FolderFacts) =>
    parentPath !== null && byPath.has(parentPath) ? idByPath.get(parentPath) === parentId : parentId === null;
  for (const folder of stored) {
    const facts = byPath.get(renamed.get(folder.path) ?? folder.path);
    if (!facts) {
      plan.deleted.push(folder);
      continue;
    }
    paired.add(facts.path);
    // A folder that is being vacated counts as changed even if the list shows it as before: its mail has to be removed
    // first.
    const same =
      !folder.vacating &&
      facts.path === folder.path &&
      facts.role === folder.role &&
      facts.selectable === folder.selectable &&
      isIn(folder.parentId, facts);
    plan[same ? 'kept' : 'changed'].push({ folder, facts });
  }
  plan.created = listed.filter((facts) => !paired.has(facts.path));
  return plan;
}
