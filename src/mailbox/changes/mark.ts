import type { RunRef } from '../../db/coordination/finished-runs.ts';
import { inLease } from '../../db/coordination/lease.ts';
import { storeFlags } from '../../imap/store.ts';
import type { SyncContext } from '../context.ts';
import { storeFlagChanges } from './flags.ts';
import type { LocationFlags } from '../store/locations.ts';
import type { EmailLocation } from '../store/moves.ts';
import { LocationChanged, locateUnmoved, openLocation } from './locate.ts';

const SEEN = '\\Seen';

/**
 * Marks an email as read or unread at the provider, wherever it is, and then here. Both steps may be done again.
 * `finishes`: the run whose work this is.
 * @throws ApiError not_found; MailError
 */
export async function markEmail(ctx: SyncContext, emailId: string, seen: boolean, finishes?: RunRef): Promise<void> {
  await locateUnmoved(ctx, emailId, async (locations) => {
    // 1. the provider; in Gmail all labels show the flags of the one mail, but for \Deleted, which is of the label
    const oneMail = ctx.session.has('X-GM-EXT-1');
    const flags: LocationFlags[] = [];
    for (const location of oneMail ? locations.slice(0, 1) : locations) {
      await openLocation(ctx, location);
      const change = seen ? { add: [SEEN] } : { remove: [SEEN] };
      const now = (await storeFlags(ctx.session, [location.uid], change)).get(location.uid);
      if (!now) throw new LocationChanged(location, { gone: true });
      for (const shown of oneMail ? locations : [location]) {
        const deleted = shown === location ? { deleted: now.has('\\Deleted') } : {};
        flags.push({ folderId: shown.folderId, uid: shown.uid, seen: now.has(SEEN), ...deleted });
      }
    }
    // 2. the store, with its event unless the watching activity has emitted it
    await inLease(ctx.db, ctx.lease, async (tx) => {
      const { notStored, beingMoved } = await storeFlagChanges(tx, ctx.lease, { flags, byApi: true, finishes });
      const [moved] = [...notStored, ...beingMoved];
      if (!moved) return;
      // Moved meanwhile, by another call or program: nothing of this is kept, and it is marked again where it is now.
      const isMoved = ({ folderId, uid }: EmailLocation) => folderId === moved.folderId && uid === moved.uid;
      const location = locations.find(isMoved) ?? locations[0];
      throw new LocationChanged(location, { gone: false, byCall: notStored.length === 0 });
    });
  });
}
