import { STARRED } from '../../contract/flags.ts';
import type { RunRef } from '../../db/coordination/finished-runs.ts';
import { inLease } from '../../db/coordination/lease.ts';
import { readFlags } from '../../imap/fetch.ts';
import { cannotBeMade } from '../../imap/response-codes.ts';
import type { ImapSession } from '../../imap/session.ts';
import { notKept, storeFlags } from '../../imap/store.ts';
import { MailError } from '../../mail-wire/mail-error.ts';
import type { SyncContext } from '../context.ts';
import { storeFlagChanges } from './flags.ts';
import type { LocationFlags } from '../store/locations.ts';
import type { EmailLocation } from '../store/moves.ts';
import { type EmailLocations, LocationChanged, locateUnmoved, openLocation } from './locate.ts';

const SEEN = '\\Seen';

/** Flags and keywords to set and to remove, in any case; one that is in both is removed. */
export interface FlagChange {
  add: string[];
  remove: string[];
}

/** Marks an email as read or unread, as `changeFlags` does. */
export function markEmail(ctx: SyncContext, emailId: string, seen: boolean, finishes?: RunRef): Promise<void> {
  return changeFlags(ctx, emailId, seen ? { add: [SEEN], remove: [] } : { add: [], remove: [SEEN] }, finishes);
}

/**
 * Changes flags of an email at the provider, wherever it is, and then in the store. Both steps are idempotent. An email has the
 * flags of all its locations: one that cannot be changed, such as in a read-only folder, matters only if it has a flag that is
 * to be removed. `finishes`: the run that this completes.
 * @throws ApiError not_found; MailError, provider_rejected when the folder does not keep one of them
 */
export async function changeFlags(
  ctx: SyncContext,
  emailId: string,
  change: FlagChange,
  finishes?: RunRef,
): Promise<void> {
  await locateUnmoved(ctx, emailId, async (locations) => {
    // 1. the provider
    const { flags, refusal } = await changeAll(ctx, locations, change);
    if (refusal && flags.length === 0) throw refusal;
    // 2. the store, with its event unless the watching activity has emitted it
    const stored = { flags, byApi: true, finishes: refusal ? undefined : finishes };
    await inLease(ctx.db, ctx.lease, async (tx) => {
      const { notStored, beingMoved } = await storeFlagChanges(tx, ctx.lease, stored);
      const [moved] = [...notStored, ...beingMoved];
      if (!moved) return;
      // Another call or program has moved it: nothing is stored, and it is marked again at its new location.
      const isMoved = ({ folderId, uid }: EmailLocation) => folderId === moved.folderId && uid === moved.uid;
      const location = locations.find(isMoved) ?? locations[0];
      throw new LocationChanged(location, { gone: false, byCall: notStored.length === 0 });
    });
    if (refusal) throw refusal;
  });
}

/** `refusal`: why the email is not as wanted after it. */
async function changeAll(
  ctx: SyncContext,
  locations: EmailLocations,
  change: FlagChange,
): Promise<{ flags: LocationFlags[]; refusal: MailError | undefined }> {
  // in Gmail all labels share the flags of the message, except \Deleted, which is set per label
  const oneMail = ctx.session.has('X-GM-EXT-1');
  const flags: LocationFlags[] = [];
  const refused: { location: EmailLocation; error: MailError }[] = [];
  for (const location of oneMail ? locations.slice(0, 1) : locations) {
    try {
      const { deleted, ...rest } = await changeAt(ctx, location, change);
      for (const shown of oneMail ? locations : [location]) {
        const own = shown === location ? { deleted } : {};
        flags.push({ folderId: shown.folderId, uid: shown.uid, ...rest, ...own });
      }
    } catch (error) {
      if (!cannotBeMade(error)) throw error;
      refused.push({ location, error });
    }
  }
  const removed = lowerCased(change.remove);
  const hasRemoved = ({ seen, flags }: EmailLocation) =>
    (seen && removed.has(SEEN.toLowerCase())) || (flags ?? []).some((flag) => removed.has(flag));
  const stops = refused.find(({ location }) => flags.length === 0 || hasRemoved(location));
  return { flags, refusal: stops?.error };
}

async function changeAt(ctx: SyncContext, location: EmailLocation, change: FlagChange) {
  await openLocation(ctx, location);
  // a keyword that the folder does not keep is removed already
  refuseUnkept(notKeepable(ctx.session, change));
  const now = (await storeFlags(ctx.session, [location.uid], change)).get(location.uid);
  if (!now) throw new LocationChanged(location, { gone: true });
  refuseUnkept(notMade(now, change));
  return readFlags(now);
}

/** The parts of a change that a message does not show after it: some servers accept flags that they do not store. */
export function notMade(now: ReadonlySet<string>, change: FlagChange): string[] {
  const has = lowerCased(now);
  const removed = lowerCased(change.remove);
  const isUnchanged = (name: string, wanted: boolean) => has.has(name.toLowerCase()) !== wanted;
  return [
    ...change.add.filter((name) => !removed.has(name.toLowerCase()) && isUnchanged(name, true)),
    ...change.remove.filter((name) => isUnchanged(name, false)),
  ];
}

/** Of the flags that a change sets, those that the selected folder does not keep. */
export function notKeepable(session: ImapSession, { add }: FlagChange): string[] {
  return notKept(session, add);
}

const lowerCased = (names: Iterable<string>) => new Set([...names].map((name) => name.toLowerCase()));

function refuseUnkept(names: string[]): void {
  if (names.length > 0) throw new MailError('provider_rejected', 'imap', unkeptDetail(names), { refused: true });
}

/** The detail for callers about flags that a folder does not keep. */
export function unkeptDetail(names: string[]): string {
  const shown = names.map((name) => (name.toLowerCase() === STARRED ? '\\Flagged' : name));
  return `the mail server does not store ${shown.join(', ')} in this folder`;
}
