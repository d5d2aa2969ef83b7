import type { Tx } from '../../db/driver/client.ts';
import type { RunRef } from '../../db/coordination/finished-runs.ts';
import { inLease, type Lease } from '../../db/coordination/lease.ts';
import { fetchFlags, type MessageFlags } from '../../imap/fetch.ts';
import { Writes } from '../../db/driver/writes.ts';
import { changeKnownEmails } from '../change-emails.ts';
import type { SyncContext } from '../context.ts';
import {
  haveOtherFlags,
  located,
  saveEmailFlags,
  type StoredState,
  withFlagsOfLocations,
} from '../store/email-states.ts';
import { countUnread, type FolderState, getLocalRevision, loadFolder } from '../store/folders.ts';
import {
  type ChangedFlags,
  changedFlags,
  compareFlags,
  type FlagComparison,
  type LocationFlags,
  saveFlags,
} from '../store/locations.ts';

/** Messages of one transaction; each may have an event with its body. */
const CHUNK = 500;

/**
 * Stores the flags that differ, with the events of emails whose flags changed. `localRevision` is that of the
 * folder before the flags were read: if this API has changed the folder since, they are read again.
 * @returns whether flags differed
 */
export async function applyFlags(
  ctx: SyncContext,
  folder: FolderState,
  flags: MessageFlags[],
  localRevision: number,
): Promise<boolean> {
  let isAnyChanged = false;
  for (let start = 0; start < flags.length; start += CHUNK) {
    let batch = flags.slice(start, start + CHUNK);
    for (let readAt = localRevision; ; ) {
      const changed = await changedFlags(ctx.db, folder.id, batch);
      isAnyChanged ||= changed.length > 0;
      if (changed.length === 0 || (await saveChangedFlags(ctx, folder, batch, readAt)) !== 'outdated') break;
      readAt = await getLocalRevision(ctx.db, folder.id);
      batch = await fetchFlags(ctx.session, changed);
    }
  }
  return isAnyChanged;
}

/** Nothing is saved if this API changed the folder in the meantime (`outdated`), or if the folder has other UIDs by now. */
function saveChangedFlags(
  ctx: SyncContext,
  folder: FolderState,
  flags: MessageFlags[],
  localRevision: number,
): Promise<'saved' | 'outdated' | 'otherUids'> {
  return inLease(ctx.db, ctx.lease, async (tx) => {
    const stored = await loadFolder(tx, folder.id);
    if (stored?.uidValidity !== folder.uidValidity) return 'otherUids';
    if (stored.localRevision !== localRevision) return 'outdated';
    await storeFlagChanges(tx, ctx.lease, { flags: flags.map((flag) => ({ ...flag, folderId: folder.id })) });
    return 'saved';
  });
}

/**
 * Stores these flags, with the counters of the folders and the events; `byApi`: this API changed them.
 * @returns the flags that were not stored: the store has no such UID, or a call is moving the message now
 */
export async function storeFlagChanges(
  tx: Tx,
  lease: Lease,
  { flags, byApi = false, finishes }: { flags: LocationFlags[]; byApi?: boolean; finishes?: RunRef | undefined },
): Promise<Pick<FlagComparison, 'notStored' | 'beingMoved'>> {
  const { changed, emails, notStored, beingMoved } = await compareFlags(tx, flags);
  const writes = new Writes();
  await saveFlags(writes, changed);
  const byPlace = new Map(changed.map((flags) => [placeOf(flags), flags]));
  const after = emails.map((email) => withFlags(email, byPlace));
  await saveEmailFlags(
    writes,
    after.filter((email, index) => haveOtherFlags(email, emails[index] as StoredState)),
  );
  const counted = byApi ? flags : changed;
  await countUnread(
    writes,
    [...new Set(counted.map(({ folderId }) => folderId))].map((folderId) => {
      const seen = changed.filter((flag) => flag.folderId === folderId && flag.seen !== flag.wasSeen);
      return { folderId, by: seen.reduce((by, flag) => by + (flag.seen ? -1 : 1), 0) };
    }),
    { byApi },
  );
  const known = (states: StoredState[]) => new Map(states.map((state) => [state.id, located(state)]));
  const change = { before: known(emails), after: known(after), writes };
  await changeKnownEmails(tx, { lease, now: new Date(), finishes }, change);
  return { notStored, beingMoved };
}

/** An email where flags of its locations have changed. */
function withFlags(email: StoredState, changed: ReadonlyMap<string, ChangedFlags>): StoredState {
  const locations = email.locations.map((location) => {
    const flags = changed.get(placeOf(location));
    return flags ? { ...location, seen: flags.seen, deleted: flags.deleted, flags: flags.flags } : location;
  });
  return withFlagsOfLocations({ ...email, locations });
}

function placeOf({ folderId, uid }: { folderId: string; uid: number }): string {
  return `${folderId} ${uid}`;
}
