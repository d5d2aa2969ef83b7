import { inLease } from '../db/coordination/lease.ts';
import { MAX_UID } from '../imap/fetch.ts';
import type { UidRange } from '../imap/imapflow-patches.ts';
import { listUids } from '../imap/list-uids.ts';
import { changeEmails } from './change-emails.ts';
import type { SyncContext } from './context.ts';
import { undeliveredIn } from './ingest/fetch.ts';
import { assertSelected, type Selection } from './selected.ts';
import { countLocations, type FolderState, hasSameUids, recountLocations } from './store/folders.ts';
import { emailsAt, knownUids, locatedUids } from './store/locations.ts';
import { knownUidsIn, markVanished, reviveLocations } from './store/vanished-locations.ts';

/** Messages of one transaction that marks or revives. */
const BATCH = 500;

function* batchesOf(uids: number[]): Generator<number[]> {
  for (let start = 0; start < uids.length; start += BATCH) yield uids.slice(start, start + BATCH);
}

/** The result of comparing the UIDs of a folder with the stored ones. */
export interface Comparison {
  /** messages left the folder: they are marked as vanished */
  missing: boolean;
  /** UIDs below the cursor that the folder holds and the store does not, ascending */
  unknown: number[];
  /** where the cursor belongs: all messages below it are stored */
  uidNext: number;
  /** UIDNEXT counts a message that neither the folder shows nor the store knows */
  announced: boolean;
}

/**
 * Compares the UIDs where the number of messages differs from the stored one, or UIDNEXT is beyond the cursor. Every
 * location below UIDNEXT is checked, including those that this API wrote since the last pass: their messages existed when
 * the folder was selected, or had left it by then.
 */
export async function findVanished(
  ctx: SyncContext,
  folder: FolderState,
  selection: Selection,
  everyFlag: boolean,
): Promise<Comparison> {
  const counted = await countLocations(ctx.db, folder.id);
  const cursor = folder.uidNext ?? 1;
  const same: Comparison = { missing: false, unknown: [], uidNext: cursor, announced: false };
  if (isSettled(ctx, folder, selection, { counted, everyFlag })) return same;
  assertSelected(ctx.session, selection);
  const { uids, complete } = await listUids(ctx.session);
  const present = new Set(uids);
  const known = await knownUids(ctx.db, folder.id, 1, MAX_UID + 1);
  if (known.length !== counted) await inLease(ctx.db, ctx.lease, (tx) => recountLocations(tx, folder.id));
  const end = Math.max(cursor, selection.uidNext ?? (uids.at(-1) ?? 0) + 1);
  const missing = await applyVanished(
    ctx,
    folder,
    // A message that the server leaves out may be any of them.
    complete ? known.filter((uid) => uid < end && !present.has(uid)) : [],
  );
  const stored = new Set(known);
  const isUnknown = (uid: number) => !stored.has(uid);
  const undelivered = undeliveredIn(ctx, { folder, selection });
  undelivered.keepOnly((uid) => isUnknown(uid) && (!complete || present.has(uid)));
  const from = folder.scannedFrom ?? cursor;
  const suspects = uids.filter((uid) => uid >= from && uid < cursor && isUnknown(uid));
  const unknown = await withoutRevived(ctx, folder, await stillPresent(ctx, selection, suspects));
  // A server may announce the UID of a message that cannot be fetched yet.
  const isComplete =
    uids.length >= selection.exists &&
    !uids.some((uid) => uid >= cursor && uid < end && isUnknown(uid) && !undelivered.isPending(uid));
  // Those that this API put there are stored, even if they have left again.
  const isCounted = end === cursor || present.has(end - 1);
  const announced = !isCounted && (await locatedUids(ctx.db, folder.id, [end - 1], false)).size === 0;
  return { missing, unknown, uidNext: isComplete ? end : cursor, announced };
}

/** Whether there is nothing to compare: the numbers agree, or cannot agree yet. Messages that are not delivered are not stored. */
function isSettled(
  ctx: SyncContext,
  folder: FolderState,
  selection: Selection,
  { counted, everyFlag }: { counted: number; everyFlag: boolean },
): boolean {
  const isAhead = selection.uidNext === null || selection.uidNext > (folder.uidNext ?? 1);
  const undelivered = undeliveredIn(ctx, { folder, selection });
  if (counted + undelivered.count() === selection.exists && !isAhead && !undelivered.isAnyDue()) return true;
  // While the baseline is not scanned, fewer stored messages than the folder has prove nothing.
  if (folder.scannedFrom === 1) return false;
  return counted === 0 || (selection.highestModseq !== null && ctx.session.qresync && !everyFlag);
}

/**
 * Of these UIDs, those that the folder holds now. This API expunges a message before it deletes it from the store, while
 * this session may still see it: after a NOOP it does not.
 */
async function stillPresent(ctx: SyncContext, selection: Selection, uids: number[]): Promise<number[]> {
  if (uids.length === 0) return [];
  await ctx.session.run('NOOP', () => ctx.session.client.noop());
  assertSelected(ctx.session, selection);
  const present = new Set((await listUids(ctx.session)).uids);
  return uids.filter((uid) => present.has(uid));
}

/** Revives vanished locations whose messages the folder has; returns the other UIDs. */
async function withoutRevived(ctx: SyncContext, folder: FolderState, uids: number[]): Promise<number[]> {
  const located = await locatedUids(ctx.db, folder.id, uids, false);
  for (const batch of batchesOf(uids.filter((uid) => located.has(uid)))) {
    await inLease(ctx.db, ctx.lease, async (tx) => {
      if (!(await hasSameUids(tx, folder))) return;
      const emailIds = [...(await emailsAt(tx, folder.id, batch)).values()];
      await changeEmails(tx, { lease: ctx.lease, emailIds, now: new Date() }, () =>
        reviveLocations(tx, folder.id, batch),
      );
    });
  }
  return uids.filter((uid) => !located.has(uid));
}

/** Ranges that are looked up at one time, and UIDs that one lookup returns. */
const RANGES = 1_000;
const FOUND = 5_000;

/**
 * Marks what the server reports as vanished; true when messages left the folder. Servers report UIDs that the folder never
 * had, too.
 */
export async function applyVanishedRanges(
  ctx: SyncContext,
  folder: FolderState,
  reported: UidRange[],
): Promise<boolean> {
  const ranges = disjoint(reported);
  let isAny = false;
  for (let start = 0; start < ranges.length; start += RANGES) {
    const part = ranges.slice(start, start + RANGES);
    for (let uids: number[] | undefined; uids === undefined || uids.length === FOUND; ) {
      // those that were marked are not found again
      uids = await knownUidsIn(ctx.db, folder.id, part, FOUND);
      if (!(await applyVanished(ctx, folder, uids))) break;
      isAny = true;
    }
  }
  return isAny;
}

/** The same UIDs in ranges that do not overlap, ascending. */
function disjoint(ranges: UidRange[]): UidRange[] {
  const merged: UidRange[] = [];
  for (const { from, to } of [...ranges].sort((a, b) => a.from - b.from)) {
    const last = merged.at(-1);
    if (last && from <= last.to + 1) last.to = Math.max(last.to, to);
    else merged.push({ from, to });
  }
  return merged;
}

/** Marks messages as vanished, unless the folder has other UIDs by now; true when there are any. */
export async function applyVanished(ctx: SyncContext, folder: FolderState, uids: number[]): Promise<boolean> {
  for (const batch of batchesOf(uids)) {
    const isSame = await inLease(ctx.db, ctx.lease, async (tx) => {
      if (!(await hasSameUids(tx, folder))) return false;
      const now = new Date();
      const emails = await emailsAt(tx, folder.id, batch);
      await changeEmails(tx, { lease: ctx.lease, emailIds: [...emails.values()], now }, () =>
        markVanished(tx, folder.id, batch, now),
      );
      return true;
    });
    if (!isSame) return false;
  }
  return uids.length > 0;
}
