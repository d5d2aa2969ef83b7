import type { Tx } from '../../db/client.ts';
import { inLease, type Lease } from '../../db/lease.ts';
import { fetchFlags, type MessageFlags, uidSets } from '../../imap/fetch.ts';
import { changeEmails } from '../change-emails.ts';
import type { SyncContext } from '../context.ts';
import { addToUnread, getLocalRevision, type FolderState, bumpLocalRevision } from '../store/folders.ts';
import { changedFlags, type ReadFlags, saveFlags } from '../store/locations.ts';

/** Messages of one transaction; each may have an event with its body. */
const CHUNK = 500;

/**
 * Stores the flags that differ, with the events of emails that became read or unread. `localRevision` is the folder's
 * before the flags were read: where this API changed the folder since, they are read again.
 * @returns whether flags differed
 */
export async function applyFlags(
  ctx: SyncContext,
  folder: FolderState,
  flags: MessageFlags[],
  localRevision: number,
): Promise<boolean> {
  let isAnyChanged = false;
  const below = flags.filter((flag) => flag.uid < (folder.uidNext ?? 1));
  for (let start = 0; start < below.length; start += CHUNK) {
    let batch = below.slice(start, start + CHUNK);
    for (let readAt = localRevision; ; ) {
      const changed = (await changedFlags(ctx.db, folder.id, batch)).map((flag) => flag.uid);
      isAnyChanged ||= changed.length > 0;
      if (changed.length === 0 || (await saveChangedFlags(ctx, folder, batch, readAt))) break;
      readAt = await getLocalRevision(ctx.db, folder.id);
      batch = [];
      for (const set of uidSets(changed)) batch.push(...(await fetchFlags(ctx.session, set)));
    }
  }
  return isAnyChanged;
}

/** False: the folder was changed by this API meanwhile, nothing is saved. */
function saveChangedFlags(
  ctx: SyncContext,
  folder: FolderState,
  flags: MessageFlags[],
  localRevision: number,
): Promise<boolean> {
  return inLease(ctx.db, ctx.lease, async (tx) => {
    if ((await getLocalRevision(tx, folder.id)) !== localRevision) return false;
    await storeFlagChanges(tx, ctx.lease, { folderId: folder.id, flags });
    return true;
  });
}

/** Stores what these flags change in the folder, with its counter and its events; `byApi`: this API changed them. */
export async function storeFlagChanges(
  tx: Tx,
  lease: Lease,
  { folderId, flags, byApi = false }: { folderId: string; flags: ReadFlags[]; byApi?: boolean },
): Promise<void> {
  const changed = await changedFlags(tx, folderId, flags);
  const seen = changed.filter((flag) => flag.seen !== flag.wasSeen);
  const emailIds = changed.flatMap((flag) => flag.emailId ?? []);
  await changeEmails(tx, { lease, emailIds, now: new Date() }, async () => {
    await saveFlags(tx, folderId, changed);
  });
  const unread = seen.reduce((by, flag) => by + (flag.seen ? -1 : 1), 0);
  if (byApi) await bumpLocalRevision(tx, [folderId], { unread });
  else await addToUnread(tx, folderId, unread);
}
