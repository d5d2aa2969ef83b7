import { inLease } from '../../db/coordination/lease.ts';
import {
  clearPendingRemoval,
  findPendingRemovals,
  type LocationKey,
  markAllPendingRemoval,
  markPendingRemoval,
  renewPendingRemoval,
} from '../../db/queries/pending-removal.ts';
import { changeEmails, changeUnreported } from '../change-emails.ts';
import type { SyncContext } from '../context.ts';
import { emailsAt } from '../store/locations.ts';

/** A location with its email; null: baseline. */
type MarkedLocation = LocationKey & { emailId: string | null };

/**
 * Marks a location as pending removal, see markPendingRemoval. The end of the move has the event.
 * @throws LeaseLost
 */
export async function mark({ db, lease }: Pick<SyncContext, 'db' | 'lease'>, location: MarkedLocation) {
  return inLease(db, lease, async (tx) => {
    let state = 'taken' as Awaited<ReturnType<typeof markPendingRemoval>>;
    await changeUnreported(tx, location.emailId ? [location.emailId] : [], async () => {
      state = await markPendingRemoval(tx, location);
    });
    return state;
  });
}

/**
 * Renews marks, by which others know that their move is under way.
 * @throws LeaseLost
 */
export function renewMarks({ db, lease }: Pick<SyncContext, 'db' | 'lease'>, marked: LocationKey[]): Promise<void> {
  return inLease(db, lease, (tx) => renewPendingRemoval(tx, marked));
}

/** Marks locations of a folder that is about to be deleted. The caller bounds their number. */
export async function markAll(
  { db, lease }: Pick<SyncContext, 'db' | 'lease'>,
  folderId: string,
  uids: number[],
): Promise<void> {
  await inLease(db, lease, async (tx) => {
    const emailIds = [...(await emailsAt(tx, folderId, uids)).values()];
    await changeUnreported(tx, emailIds, () => markAllPendingRemoval(tx, folderId, uids));
  });
}

/** A mark that is older was left by a move that died, in milliseconds: the folders show where the email is. */
const ABANDONED_MS = 2 * 60_000;

/**
 * The age of an abandoned mark while not every folder is synced, since the copy may be in one that is not; in
 * milliseconds.
 */
const UNSEEN_MS = 15 * 60_000;

/** Marks that are cleared in one transaction; each may have an event with a body. */
const BATCH = 500;

/**
 * Ends the pending removals of abandoned moves by copying, with the events of the emails that are shown in further folders
 * from then on. `synced`: the last pass has synced every folder that changed.
 * @throws LeaseLost
 */
export async function endAbandonedMoves(
  ctx: Pick<SyncContext, 'db' | 'lease' | 'account'>,
  { synced }: { synced: boolean },
): Promise<void> {
  const olderThanMs = synced ? ABANDONED_MS : UNSEEN_MS;
  for (;;) {
    const marked = await findPendingRemovals(ctx.db, ctx.account.id, { olderThanMs, limit: BATCH });
    if (marked.length === 0) return;
    await unmark(ctx, marked);
  }
}

/** Shows emails in locations again that were pending removal, with the events of what that changes. */
export async function unmark(
  { db, lease }: Pick<SyncContext, 'db' | 'lease'>,
  marked: MarkedLocation[],
): Promise<void> {
  const emailIds = marked.flatMap(({ emailId }) => emailId ?? []);
  await inLease(db, lease, (tx) =>
    changeEmails(tx, { lease, emailIds, now: new Date() }, () => clearPendingRemoval(tx, marked)),
  );
}
