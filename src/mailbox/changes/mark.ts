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
 * Marks an email as read or unread at the provider, wherever it is, and then in the store. Both steps are idempotent.
 * `finishes`: the run that this completes.
 * @throws ApiError not_found; MailError
 */
export async function markEmail(ctx: SyncContext, emailId: string, seen: boolean, finishes?: RunRef): Promise<void> {
  await locateUnmoved(ctx, emailId, async (locations) => {
    // 1. the provider; in Gmail all labels share the flags of the message, except \Deleted, which is set per label
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
      // Another call or program has moved it: nothing is stored, and it is marked again at its new location.
      const isMoved = ({ folderId, uid }: EmailLocation) => folderId === moved.folderId && uid === moved.uid;
      const location = locations.find(isMoved) ?? locations[0];
      throw new LocationChanged(location, { gone: false, byCall: notStored.length === 0 });
    });
  });
}
