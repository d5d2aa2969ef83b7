import { ApiError } from '../../contract/errors.ts';
import { recordFinishedRun, type RunRef } from '../../db/coordination/finished-runs.ts';
import { inLease } from '../../db/coordination/lease.ts';
import type { Tx } from '../../db/driver/client.ts';
import { hasMove } from '../../imap/command.ts';
import { expungeMessages } from '../../imap/expunge.ts';
import { fetchMeta } from '../../imap/fetch.ts';
import { moveMessages } from '../../imap/move.ts';
import { openFolder } from '../../imap/select.ts';
import { loadSend } from '../../outgoing/send-state.ts';
import { recordDeletions } from '../change-emails.ts';
import type { SyncContext } from '../context.ts';
import { ensureRoleFolder, placeOf } from '../folders/by-role.ts';
import { locateEmails } from '../store/email-states.ts';
import { deleteEmails } from '../store/emails.ts';
import { countTakenOut } from '../store/folders.ts';
import type { EmailLocation } from '../store/moves.ts';
import { type EmailLocations, LocationChanged, locateEmail, openLocation } from './locate.ts';
import { moveEmail, VIEWS } from './move.ts';

/** What is committed with the end of a move to Trash. */
export interface WithTrash {
  /** the run that this completes */
  finishes?: RunRef | undefined;
  /** runs in the transaction that deletes an email, where the account does not include Trash */
  also?: ((tx: Tx) => Promise<void>) | undefined;
}

/**
 * Moves an email to Trash, which is created if it is missing. If the account does not include Trash, the email leaves the store, with
 * its event.
 * @throws ApiError not_found; MailError
 */
export async function trashEmail(ctx: SyncContext, emailId: string, commits: WithTrash = {}): Promise<void> {
  const { finishes } = commits;
  const { path, folder } = await placeOf(ctx, 'TRASH');
  if (folder) return moveEmail(ctx, emailId, () => ensureRoleFolder(ctx, 'TRASH'), finishes);
  try {
    await moveOut(ctx, emailId, path, commits);
  } catch (error) {
    // an earlier attempt, or the watch that saw it leave, has taken it out of the store; one just sent is not in it yet
    const isOut = error instanceof ApiError && error.code === 'not_found';
    if (!isOut || (await loadSend(ctx.db, ctx.account.id, emailId))?.hasProvisional) throw error;
    if (finishes) await recordFinishedRun(ctx.db, finishes);
  }
}

/**
 * Moves an email into a folder that the account does not include. Steps: 1 MOVE, or COPY and EXPUNGE; 2 EXPUNGE in the other folders
 * that hold it; 3 commit. Safe to repeat after each, and after the COPY.
 */
async function moveOut(ctx: SyncContext, emailId: string, path: string, commits: WithTrash): Promise<void> {
  await locateEmail(ctx, emailId, async (locations) => {
    const [from, ...others] = leavesOf(locations);
    const isCopied = !hasMove(ctx.session) && (await hasCopy(ctx, from, path));
    await openLocation(ctx, from);
    // 1.
    if (isCopied) await expungeMessages(ctx.session, [from.uid]);
    else {
      const moved = await moveMessages(ctx.session, [from.uid], path);
      if (moved.missing.length > 0) throw new LocationChanged(from, { gone: true });
    }
    // 2. Gmail takes it out of all of them.
    for (const other of ctx.session.has('X-GM-EXT-1') ? [] : others) {
      await openLocation(ctx, other);
      await expungeMessages(ctx.session, [other.uid]);
    }
    // 3.
    await forget(ctx, emailId, { ...commits, locations });
  });
}

/** The newest messages of a folder, among which the copy of an attempt that was killed is. */
const NEWEST = 100;

/** Whether a folder has a copy of the email: an attempt that was killed may have made it. */
async function hasCopy({ session }: SyncContext, email: EmailLocation, path: string): Promise<boolean> {
  const { uidNext } = await openFolder(session, path);
  const newest = uidNext === null ? [] : await fetchMeta(session, Math.max(1, uidNext - NEWEST));
  return newest.some(({ identity }) => identity === email.identity);
}

function leavesOf(locations: EmailLocations): EmailLocations {
  const [first, ...rest] = locations.filter(({ role }) => !VIEWS.has(role));
  return first ? [first, ...rest] : locations;
}

async function forget(
  ctx: SyncContext,
  emailId: string,
  { locations, finishes, also }: WithTrash & { locations: EmailLocations },
): Promise<void> {
  const unused = await inLease(ctx.db, ctx.lease, async (tx) => {
    const stored = [...(await locateEmails(tx, [emailId])).values()];
    await recordDeletions(tx, ctx.account.id, stored, new Date());
    for (const location of stored.length > 0 ? locations : []) await countTakenOut(tx, location);
    if (finishes) await recordFinishedRun(tx, finishes);
    await also?.(tx);
    return deleteEmails(tx, [emailId]);
  });
  await ctx.storage.delete(unused);
}
