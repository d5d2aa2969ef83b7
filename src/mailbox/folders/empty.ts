import { inLease } from '../../db/lease.ts';
import { markAllLeaving, placedElsewhere } from '../../db/pending-removal.ts';
import { hasMove } from '../../imap/command.ts';
import { expungeMessages } from '../../imap/expunge.ts';
import { fetchMetaOf, MAX_UID, searchUids } from '../../imap/fetch.ts';
import { moveMessages } from '../../imap/move.ts';
import { openFolder } from '../../imap/select.ts';
import { FolderMissing, MailError } from '../../mail-error.ts';
import type { SyncContext } from '../context.ts';
import { type FolderState, loadFolders } from '../store/folders.ts';
import { baselinePlacement, insertPlacements, placedUids } from '../store/locations.ts';
import { lookOnce } from '../watch.ts';
import { ensureRoleFolder } from './by-role.ts';

/** Messages of one MOVE. */
const BATCH = 200;
/** Looks at a folder into which mail keeps coming. */
const ROUNDS = 20;

/**
 * Moves all mail of a folder to Trash, what lay there before the account connected too. Where it went is found by a look
 * at the mailbox, which tells each email's event once. In Gmail what has another label keeps that, and is not thrown away.
 * Doing it again moves what is left.
 */
export async function emptyIntoTrash(ctx: SyncContext, { id, path }: FolderState): Promise<void> {
  const trash = await ensureRoleFolder(ctx, 'TRASH');
  for (let round = 1; round <= ROUNDS; round++) {
    // Mail that has just come is taken in, and told as new, before it goes.
    await lookOnce(ctx, new Set([path, trash.path]));
    const folder = (await loadFolders(ctx.db, ctx.account.id)).find((each) => each.id === id);
    if (!folder || folder.path !== path)
      throw new MailError('provider_error', 'imap', 'the folder was renamed: try again');
    if (!(await emptyOnce(ctx, folder, trash))) return;
  }
  throw new MailError('provider_error', 'imap', 'mail keeps coming into the folder: try again');
}

/** False: there was nothing to move. */
async function emptyOnce(ctx: SyncContext, folder: FolderState, trash: FolderState): Promise<boolean> {
  const { session } = ctx;
  const selected = await openFolder(session, folder.path).catch((error: unknown) => {
    if (error instanceof FolderMissing) return undefined;
    throw error;
  });
  if (!selected) return false;
  if (selected.uidValidity !== folder.uidValidity) return true;
  const there = await searchUids(session, MAX_UID + 1);
  const keeping = session.has('X-GM-EXT-1') ? await placedElsewhere(ctx.db, folder.id, there) : new Set<number>();
  const moving = there.filter((uid) => !keeping.has(uid));
  await noteUnknown(ctx, folder, moving);
  const known = moving.filter((uid) => uid < (folder.uidNext ?? 1));
  for (let start = 0; start < known.length; start += BATCH) {
    await moveBatch(ctx, folder, trash, known.slice(start, start + BATCH));
  }
  return moving.length > 0;
}

/** Mail from before the connect that was never scanned would be taken for new where it goes. */
async function noteUnknown(ctx: SyncContext, folder: FolderState, uids: number[]): Promise<void> {
  const below = uids.filter((uid) => uid < (folder.uidNext ?? 1));
  const placed = await placedUids(ctx.db, folder.id, below, false);
  const metas = await fetchMetaOf(
    ctx.session,
    below.filter((uid) => !placed.has(uid)),
  );
  if (metas.length === 0) return;
  await inLease(ctx.db, ctx.lease, (tx) =>
    insertPlacements(
      tx,
      metas.map((meta) => baselinePlacement(ctx.account.id, folder.id, meta)),
    ),
  );
}

async function moveBatch(ctx: SyncContext, folder: FolderState, trash: FolderState, uids: number[]): Promise<void> {
  const { session } = ctx;
  if (hasMove(session)) {
    await moveMessages(session, uids, trash.path);
    return;
  }
  // Copied and then deleted: see src/db/pending-removal.ts. What an earlier try has copied already is not copied again.
  await markAllLeaving(ctx.db, ctx.lease, folder.id, uids);
  const copied = await placedElsewhere(ctx.db, folder.id, uids, trash.id);
  await expungeMessages(session, [...copied]);
  const left = uids.filter((uid) => !copied.has(uid));
  if (left.length > 0) await moveMessages(session, left, trash.path);
}
