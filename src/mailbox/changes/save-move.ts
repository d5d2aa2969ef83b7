import { inLease } from '../../db/lease.ts';
import { changeEmails } from '../change-emails.ts';
import type { SyncContext } from '../context.ts';
import type { EmailPlace } from '../store/email-locations.ts';
import { type FolderState, noteWrite } from '../store/folders.ts';
import { forgetVanished } from '../store/locations.ts';
import { addPlaces, type MovedHere, removePlaces } from '../store/moves.ts';

/** What a move of one email came to at the provider. */
export interface MoveOutcome {
  target: FolderState;
  /** where it does not lie any more */
  removed: EmailPlace[];
  /** where it lies now, and what it was taken from; undefined when it lay there before */
  arrived: { uid: number; from: EmailPlace } | undefined;
}

/** Commits a move with its event; whatever the watching activity has seen of it by then, it is told once. */
export async function saveMove(ctx: SyncContext, emailId: string, outcome: MoveOutcome): Promise<void> {
  const { target, removed, arrived } = outcome;
  if (removed.length === 0 && !arrived) return;
  await inLease(ctx.db, ctx.lease, async (tx) => {
    await changeEmails(tx, ctx.lease, [emailId], new Date(), async () => {
      await removePlaces(tx, removed);
      if (arrived) await addPlaces(tx, [placeOf(ctx, emailId, target, arrived)]);
      await forgetVanished(tx, [emailId]);
    });
    await noteWrite(tx, [...new Set([target.id, ...removed.map((place) => place.folderId)])]);
  });
}

function placeOf(
  ctx: SyncContext,
  emailId: string,
  target: FolderState,
  { uid, from }: NonNullable<MoveOutcome['arrived']>,
): MovedHere {
  const { seen, identity, weakIdentity, serverId } = from;
  const accountId = ctx.account.id;
  return { folderId: target.id, uid, accountId, emailId, seen, identity, weakIdentity, serverId };
}
