import { ApiError } from '../../contract/errors.ts';
import { inLease } from '../../db/lease.ts';
import { hasUidplus } from '../../imap/command.ts';
import { fetchMeta } from '../../imap/fetch.ts';
import { statusOf } from '../../imap/list.ts';
import type { Moved } from '../../imap/move.ts';
import { openFolder } from '../../imap/select.ts';
import type { ImapSession } from '../../imap/session.ts';
import { FolderMissing, MailError } from '../../mail-error.ts';
import { changeEmails } from '../change-emails.ts';
import type { SyncContext } from '../context.ts';
import type { FolderState } from '../store/folders.ts';
import { markVanished, locatedUids } from '../store/locations.ts';
import { type EmailLocation, loadLocations } from '../store/moves.ts';
import { syncOnce } from '../sync-pass.ts';

/** A mail is not where it was: another program moved or deleted it, or a folder is another one by now. */
export class LocationChanged extends Error {
  override readonly name = 'Displaced';
  readonly location: EmailLocation;
  /** the folder is the same and does not hold this UID any more */
  readonly gone: boolean;
  /** paths of folders that have to be looked at whatever their counters say */
  readonly pass: string[];

  constructor(place: EmailLocation, options: { gone: boolean; look?: string[] }) {
    super('the mail is not where it was');
    this.location = place;
    this.gone = options.gone;
    this.pass = [place.path, ...(options.look ?? [])];
  }
}

export type EmailLocations = readonly [EmailLocation, ...EmailLocation[]];

/** Looks at the mailbox before a mail that other programs keep moving is given up. */
const MAX_PASSES = 4;

/**
 * Runs a change of an email where it lies now. When it turns out to lie elsewhere, the whole mailbox is looked at and
 * the change is made there: a conflict with another mail program ends in the truth.
 * @throws ApiError not_found when the email is gone for good; MailError
 */
export async function locateEmail<T>(
  ctx: SyncContext,
  emailId: string,
  change: (places: EmailLocations) => Promise<T>,
): Promise<T> {
  for (let looks = 0; ; looks++) {
    const [first, ...others] = await locationsOf(ctx, emailId);
    let look: string[] = [];
    try {
      if (first) return await change([first, ...others]);
    } catch (error) {
      if (!(error instanceof LocationChanged)) throw error;
      look = error.pass;
      if (error.gone) await recordVanished(ctx, emailId, error.location);
    }
    if (looks === MAX_PASSES) {
      throw new MailError('provider_error', 'imap', 'other mail programs keep moving this email: try again');
    }
    await syncOnce(ctx, new Set(look));
  }
}

async function locationsOf(ctx: SyncContext, emailId: string): Promise<EmailLocation[]> {
  const places = await loadLocations(ctx.db, ctx.account.id, emailId);
  if (!places) throw new ApiError('not_found', 'there is no email with that id');
  return places;
}

/**
 * Selects the folder of a place for writing: a UID is never used under another UIDVALIDITY.
 * @throws Displaced when the folder is gone or has another UIDVALIDITY; MailError
 */
export async function openLocation(ctx: SyncContext, place: EmailLocation): Promise<void> {
  const selected = await openFolder(ctx.session, place.path).catch((error: unknown) => {
    throw error instanceof FolderMissing ? new LocationChanged(place, { gone: false }) : error;
  });
  if (selected.uidValidity !== place.uidValidity) throw new LocationChanged(place, { gone: false });
}

/** The server says that the mail has left this folder; where it went is told by the look that follows. */
async function recordVanished(ctx: SyncContext, emailId: string, { folderId, uid }: EmailLocation): Promise<void> {
  await inLease(ctx.db, ctx.lease, async (tx) => {
    const now = new Date();
    await changeEmails(tx, ctx.lease, [emailId], now, () => markVanished(tx, folderId, [uid], now));
  });
}

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
  source: EmailLocation,
  target: FolderState,
  moved: Moved,
  mark: number | undefined,
): Promise<number> {
  const displaced = () => new LocationChanged(source, { gone: false, look: [target.path] });
  const uid = moved.uids.get(source.uid);
  if (uid !== undefined && moved.uidValidity !== null) {
    if (!isKnown(target, moved.uidValidity)) throw displaced();
    return uid;
  }
  const selected = await openFolder(ctx.session, target.path);
  if (!isKnown(target, selected.uidValidity)) throw displaced();
  const metas = await fetchMeta(ctx.session, mark ?? target.uidNext ?? 1);
  const placed = await locatedUids(
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
