import { setTimeout as sleep } from 'node:timers/promises';
import { ApiError } from '../../contract/errors.ts';
import { inLease } from '../../db/coordination/lease.ts';
import { hasUidplus } from '../../imap/command.ts';
import { fetchMeta, fetchMetaOf } from '../../imap/fetch.ts';
import { statusOf } from '../../imap/list.ts';
import type { Moved } from '../../imap/move.ts';
import { openFolder } from '../../imap/select.ts';
import type { ImapSession } from '../../imap/session.ts';
import { fitsUidValidity } from '../../imap/uidvalidity.ts';
import { FolderMissing, MailError } from '../../mail-wire/mail-error.ts';
import { changeEmails } from '../change-emails.ts';
import type { SyncContext } from '../context.ts';
import type { FolderState } from '../store/folders.ts';
import { locatedUids } from '../store/locations.ts';
import { markVanished } from '../store/vanished-locations.ts';
import { type EmailLocation, loadLocations } from '../store/moves.ts';
import { remapFolder } from '../folders/uidvalidity.ts';
import { isSameMessage } from '../ingest/match.ts';
import { syncOnce } from '../sync-pass.ts';

/** An email is not where it was: another program moved or deleted it, or the folder was replaced. */
export class LocationChanged extends Error {
  override readonly name = 'LocationChanged';
  readonly location: EmailLocation;
  /** the folder is the same and no longer holds this UID */
  readonly gone: boolean;
  /** paths of folders that have to be synced whatever their counters say */
  readonly syncPaths: string[];

  /** a call of this API is moving it: there is nothing to sync */
  readonly byCall: boolean;

  constructor(location: EmailLocation, options: { gone: boolean; sync?: string[]; byCall?: boolean }) {
    super('the email is not where it was');
    this.location = location;
    this.gone = options.gone;
    this.byCall = options.byCall ?? false;
    this.syncPaths = [location.path, ...(options.sync ?? [])];
  }
}

export type EmailLocations = readonly [EmailLocation, ...EmailLocation[]];

/** Sync passes before a change of an email that other programs keep moving fails. */
const MAX_PASSES = 4;

/**
 * Runs a change of an email where it is now. If the email has moved, syncs the whole mailbox and repeats the change at the
 * new location: after a conflict with another mail program the store shows the state of the server.
 * @throws ApiError not_found when the email was deleted; MailError
 */
export function locateEmail<T>(ctx: SyncContext, emailId: string, change: Change<T>): Promise<T> {
  return changeLocated(ctx, emailId, locationsOf, change);
}

/**
 * Runs a change that must move with the message, as `locateEmail` does, after any move of the email by COPY has ended: the
 * copy would not have changes that were made after it.
 */
export function locateUnmoved<T>(ctx: SyncContext, emailId: string, change: Change<T>): Promise<T> {
  return changeLocated(ctx, emailId, unmovedLocationsOf, change);
}

type Change<T> = (locations: EmailLocations) => Promise<T>;

async function changeLocated<T>(
  ctx: SyncContext,
  emailId: string,
  locate: typeof locationsOf,
  change: Change<T>,
): Promise<T> {
  for (let passes = 0; ; passes++) {
    const [first, ...others] = await locate(ctx, emailId);
    let paths: string[] = [];
    try {
      if (first) return await change([first, ...others]);
    } catch (error) {
      if (!(error instanceof LocationChanged)) throw error;
      if (error.byCall && passes < MAX_PASSES) continue;
      if (passes < MAX_PASSES && (await hasMovedOn(ctx, emailId, error))) continue;
      paths = error.syncPaths;
      if (error.gone) await recordVanished(ctx, emailId, error.location);
    }
    if (passes === MAX_PASSES) {
      throw new MailError('provider_error', 'imap', 'other mail programs keep moving this email; retry later');
    }
    await syncOnce(ctx, { changed: new Set(paths) });
  }
}

/** How long a call of this API that has moved an email may take to commit where it is, in milliseconds. */
const COMMIT_MS = 500;

/**
 * Whether the store has another location by now, from another call or the watch: no sync has to find it. A sync for each of
 * many calls beside a move of many emails would keep them all waiting.
 */
async function hasMovedOn(ctx: SyncContext, emailId: string, { gone, location }: LocationChanged): Promise<boolean> {
  const isSame = ({ folderId, uid }: EmailLocation) => folderId === location.folderId && uid === location.uid;
  for (const until = performance.now() + (gone ? COMMIT_MS : 0); ; await sleep(CHECK_EVERY_MS)) {
    if (!(await locationsOf(ctx, emailId)).some(isSame)) return true;
    if (performance.now() >= until) return false;
  }
}

async function locationsOf(ctx: SyncContext, emailId: string): Promise<EmailLocation[]> {
  const locations = await loadLocations(ctx.db, ctx.account.id, emailId);
  if (!locations) throw new ApiError('not_found', 'no email has this id');
  return locations;
}

/** Longer than a move that died counts as under way; see src/db/queries/pending-removal.ts. */
const MOVE_MS = 12_000;
const CHECK_EVERY_MS = 100;

async function unmovedLocationsOf(ctx: SyncContext, emailId: string): Promise<EmailLocation[]> {
  for (const until = performance.now() + MOVE_MS; ; ) {
    const locations = await locationsOf(ctx, emailId);
    if (!locations.some(({ beingMoved }) => beingMoved)) return locations;
    if (performance.now() >= until) throw new MailError('provider_error', 'imap', BEING_MOVED);
    await sleep(CHECK_EVERY_MS);
  }
}

export const BEING_MOVED = 'another call is moving this email; retry later';

/**
 * Selects the folder of a location for writing. A UID is never used under another UIDVALIDITY, nor when it names another
 * message than the stored one: the folder is mapped again then. A UID without a message is left to the command.
 * @throws LocationChanged when the folder was deleted, has another UIDVALIDITY or was renumbered; MailError
 */
export async function openLocation(ctx: SyncContext, location: EmailLocation): Promise<void> {
  const selected = await openFolder(ctx.session, location.path).catch((error: unknown) => {
    throw error instanceof FolderMissing ? new LocationChanged(location, { gone: false }) : error;
  });
  if (selected.uidValidity !== location.uidValidity) throw new LocationChanged(location, { gone: false });
  if ((await messageAt(ctx.session, location)) !== 'other') return;
  await remapFolder(ctx, location.folderId, selected);
  throw new LocationChanged(location, { gone: false });
}

/** What the UID of a location names in the selected folder: the stored message, another one, or none. */
export async function messageAt(session: ImapSession, location: EmailLocation): Promise<'same' | 'other' | 'none'> {
  const [meta] = await fetchMetaOf(session, [location.uid]);
  if (!meta) return 'none';
  return isSameMessage(meta, location) ? 'same' : 'other';
}

/** The server reports that the email has left this folder; the sync pass that follows finds its new location. */
async function recordVanished(ctx: SyncContext, emailId: string, { folderId, uid }: EmailLocation): Promise<void> {
  await inLease(ctx.db, ctx.lease, async (tx) => {
    const now = new Date();
    await changeEmails(tx, { lease: ctx.lease, emailIds: [emailId], now }, () =>
      markVanished(tx, folderId, [uid], now),
    );
  });
}

/**
 * The lowest UID that a message which is about to be put into a folder can get. Undefined where the server returns the
 * UID itself (UIDPLUS, RFC 4315).
 */
export async function targetMark(session: ImapSession, target: FolderState): Promise<number | undefined> {
  if (hasUidplus(session)) return undefined;
  return (await statusOf(session, target.path))?.uidNext ?? target.uidNext ?? 1;
}

/**
 * The UID of an email that was just put into a folder: from COPYUID, else found among the messages that arrived there
 * since. Selects that folder in the latter case.
 * @throws LocationChanged when it is not there: another program may have moved it, or changed the folder
 */
export async function findArrival(
  ctx: SyncContext,
  source: EmailLocation,
  target: FolderState,
  { moved, mark }: { moved: Moved; mark: number | undefined },
): Promise<number> {
  const changed = () => new LocationChanged(source, { gone: false, sync: [target.path] });
  const uid = moved.uids.get(source.uid);
  if (uid !== undefined && moved.uidValidity !== null) {
    if (!fitsUidValidity(target.uidValidity, moved.uidValidity)) throw changed();
    return uid;
  }
  const selected = await openFolder(ctx.session, target.path);
  if (!fitsUidValidity(target.uidValidity, selected.uidValidity)) throw changed();
  const metas = await fetchMeta(ctx.session, mark ?? target.uidNext ?? 1);
  const located = await locatedUids(
    ctx.db,
    target.id,
    metas.map((meta) => meta.uid),
    false,
  );
  const alike = metas.filter((meta) => !located.has(meta.uid) && meta.weakIdentity === source.weakIdentity);
  const found = alike.find((meta) => meta.identity === source.identity) ?? alike[0];
  if (!found) throw changed();
  return found.uid;
}
