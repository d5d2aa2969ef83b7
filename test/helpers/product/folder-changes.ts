import type { Database } from '../../../src/db/driver/client.ts';
import type { MessageMeta } from '../../../src/imap/fetch.ts';
import { applyPlan, type PlanContext } from '../../../src/mailbox/folders/apply.ts';
import { planFolders } from '../../../src/mailbox/folders/plan.ts';
import type { MessageSource } from '../../../src/mailbox/folders/uidvalidity.ts';
import {
  type FolderFacts,
  type FolderState,
  loadDeletedFolders,
  loadFolders,
} from '../../../src/mailbox/store/folders.ts';
import { storedEvents } from './stored-events.ts';

/**
 * Applies a folder list in which one folder has changed, as a sync pass does; null: it is no longer listed. `created` are
 * the new folders.
 */
export async function applyList(
  ctx: PlanContext,
  folderId: string,
  change: Partial<FolderFacts> | null,
  created: FolderFacts[] = [],
): Promise<{ missing: boolean } | undefined> {
  const stored = await loadFolders(ctx.db, ctx.account.id);
  const listed = stored.flatMap((folder) => {
    if (folder.id !== folderId) return [factsOf(folder)];
    return change === null ? [] : [{ ...factsOf(folder), ...change }];
  });
  listed.push(...created);
  const before = stored.find((folder) => folder.id === folderId);
  const plan = planFolders(stored, listed, new Map(before && change?.path ? [[before.path, change.path]] : []));
  plan.deleted.push(...(await loadDeletedFolders(ctx.db, ctx.account.id)));
  return applyPlan(ctx, plan, stored);
}

/** The facts that a server reports of an unchanged folder. */
export function factsOf(folder: FolderState): FolderFacts {
  const { path, delimiter, name, selectable } = folder;
  return {
    path,
    delimiter,
    name,
    selectable,
    parentPath: null,
    role: folder.role as FolderFacts['role'],
    status: null,
  };
}

/** Types and objects of the events of an account, in their order. */
export async function storedTypes(database: Database, accountId: string): Promise<[string, string][]> {
  return (await storedEvents(database, accountId)).map(({ type, objectId }) => [type, objectId]);
}

/**
 * The messages `from` to `to` of a folder that fillFolder filled, renumbered: message n has the UID n + shift.
 * `largest` is the largest number of messages requested in one call.
 */
export function serverOf({ shift, from, to }: { shift: number; from: number; to: number }): MessageSource & {
  largest: number;
} {
  const server = {
    largest: 0,
    uids: async () => Array.from({ length: to - from + 1 }, (_, index) => from + index + shift),
    metas: async (uids: number[]): Promise<MessageMeta[]> => {
      server.largest = Math.max(server.largest, uids.length);
      return uids.map((uid) => ({
        ...{ uid, seen: false, deleted: false, flags: [], internalDate: new Date(), size: 1000, messageId: null },
        ...{ identity: `i${uid - shift}`, weakIdentity: `w${uid - shift}`, serverId: null, serverThreadId: null },
      }));
    },
  };
  return server;
}
