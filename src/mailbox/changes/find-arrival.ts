import { hasUidplus } from '../../imap/command.ts';
import { fetchMeta } from '../../imap/fetch.ts';
import { statusOf } from '../../imap/list.ts';
import type { Moved } from '../../imap/move.ts';
import { openFolder } from '../../imap/select.ts';
import type { ImapSession } from '../../imap/session.ts';
import type { SyncContext } from '../context.ts';
import type { EmailPlace } from '../store/email-locations.ts';
import type { FolderState } from '../store/folders.ts';
import { placedUids } from '../store/locations.ts';
import { Displaced } from './locate.ts';

/**
 * The first UID that what is about to be put into a folder can have there. Undefined where the server tells the UID
 * itself (UIDPLUS, RFC 4315).
 */
export async function targetMark(session: ImapSession, target: FolderState): Promise<number | undefined> {
  if (hasUidplus(session)) return undefined;
  return (await statusOf(session, target.path))?.uidNext ?? target.uidNext ?? 1;
}

/**
 * The UID of a mail that was just put into a folder: as COPYUID tells it, else what looks like it among the mail that
 * came there since. Selects that folder in the latter case.
 * @throws Displaced when it is not there (any more): another program may have moved it on, or changed the folder
 */
export async function findArrival(
  ctx: SyncContext,
  source: EmailPlace,
  target: FolderState,
  moved: Moved,
  mark: number | undefined,
): Promise<number> {
  const displaced = () => new Displaced(source, { gone: false, look: [target.path] });
  const uid = moved.uids.get(source.uid);
  if (uid !== undefined && moved.uidValidity !== null) {
    if (!isKnown(target, moved.uidValidity)) throw displaced();
    return uid;
  }
  const selected = await openFolder(ctx.session, target.path);
  if (!isKnown(target, selected.uidValidity)) throw displaced();
  const metas = await fetchMeta(ctx.session, mark ?? target.uidNext ?? 1);
  const placed = await placedUids(
    ctx.db,
    target.id,
    metas.map((meta) => meta.uid),
    false,
  );
  const alike = metas.filter((meta) => !placed.has(meta.uid) && meta.weakIdentity === source.weakIdentity);
  const found = alike.find((meta) => meta.identity === source.identity) ?? alike[0];
  if (!found) throw displaced();
  return found.uid;
}

/** Under another UIDVALIDITY than the store knows all of the folder is to be mapped anew first. */
function isKnown({ uidValidity }: FolderState, now: number): boolean {
  return uidValidity === null || uidValidity === 0 || uidValidity === now;
}
