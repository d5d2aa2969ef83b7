import { inLease } from '../db/coordination/lease.ts';
import { byUid } from '../imap/sets.ts';
import {
  type Changes,
  fetchChanges,
  fetchMetaIfSent,
  fetchNewestFlags,
  type MessageFlags,
  type MessageMeta,
} from '../imap/fetch.ts';
import { listUids } from '../imap/list-uids.ts';
import { MailError } from '../mail-wire/mail-error.ts';
import { applyFlags } from './changes/flags.ts';
import type { SyncContext } from './context.ts';
import { remapFolder, remapUids } from './folders/uidvalidity.ts';
import { cursorLimitOf } from './ingest/commit.ts';
import { undeliveredIn } from './ingest/fetch.ts';
import { ingest } from './ingest/ingest.ts';
import { fetchMetaDue, fetchMetaFrom } from './ingest/metas.ts';
import { foldersToCheck, isSameMessage, matchMessages } from './ingest/match.ts';
import { assertSelected, ensureSelected, type Selection, withSelected } from './selected.ts';
import { type FolderState, loadFolder, updateFolder } from './store/folders.ts';
import { type Candidate, findCandidates, locationsAt } from './store/locations.ts';
import { applyVanishedRanges, findVanished } from './vanished.ts';

export interface FolderPassOptions {
  /** compare all flags where the folder has no MODSEQ, not just those of the newest messages */
  everyFlag: boolean;
  /** folders whose vanished messages are known in this pass */
  compared: ReadonlySet<string>;
  /** ingest only messages with lower UIDs; the other folders have been synced since those were listed */
  arrivalsBelow?: number | undefined;
}

export interface FolderPassResult {
  /** false: the server refused to open the folder or a command in it, or the folder is gone */
  opened: boolean;
  /** the folder could not be selected again: the rest of it is left to the next sync */
  interrupted: boolean;
  /** messages came or left, or flags changed */
  changed: boolean;
  /** emails left a folder */
  missing: boolean;
  /** UIDNEXT counts a message that cannot be fetched: it may be an email that left another folder */
  announced: boolean;
  /** messages for which the storage has no room */
  leftOut: number;
  /** folders whose vanished messages are known now */
  compared: string[];
  /** the other folders must be synced first, and then this one again with this `arrivalsBelow` */
  othersFirst: number | null;
}

/** New messages whose look-alikes are read in one query. */
const CHUNK = 500;

/** Flags of this many newest messages are compared in each pass over a folder without MODSEQ. */
const NEWEST = 200;

/**
 * Syncs one folder: new messages, then flags and vanished messages below the cursor. A folder that the server refuses to
 * open, or in which it refuses a command, is left to a later pass.
 * @throws MailError; LeaseLost
 */
export async function syncFolder(
  ctx: SyncContext,
  folderId: string,
  options: FolderPassOptions,
): Promise<FolderPassResult> {
  const { renumbered, ...first } = await passOnce(ctx, folderId, options);
  if (!renumbered) return first;
  const { renumbered: again, ...second } = await passOnce(ctx, folderId, options);
  return { ...second, interrupted: again || second.interrupted, missing: true };
}

async function passOnce(
  ctx: SyncContext,
  folderId: string,
  options: FolderPassOptions,
): Promise<FolderPassResult & { renumbered: boolean }> {
  const notOpened = {
    ...{ opened: false, interrupted: false, changed: false, missing: false, announced: false },
    ...{ leftOut: 0, compared: [], othersFirst: null, renumbered: false },
  };
  // Read before SELECT: flags that are read after a change of this API show that change.
  const stored = await loadFolder(ctx.db, folderId);
  if (!stored || stored.vacating || !isDue(ctx, stored)) return notOpened;
  const work = async (selection: Selection) => {
    const mapped = await mapUids(ctx, stored, selection);
    // Messages that were not found under the new UIDs may have moved to another folder.
    const isRemapped = mapped.uidValidity !== stored.uidValidity && stored.uidValidity !== null;
    const open = { ctx, folder: mapped, selection, localRevision: stored.localRevision };
    const listed = await listArrivals(open, options.arrivalsBelow);
    const { folder, complete, ...arrivals } = await ingestArrivals(open, options, listed);
    if (arrivals.renumbered) await remapFolder(ctx, folderId, selection);
    const leftOut = arrivals.leftOut.length;
    if (!complete) {
      const interrupted = arrivals.othersFirst === null;
      return { ...arrivals, leftOut, opened: true, changed: true, interrupted, announced: false };
    }
    const changes = await applyChanges({ ...open, folder }, options.everyFlag);
    const late = await ingestUnknown({ ...open, folder: changes.folder }, options, changes.unknown);
    if (late.renumbered) await remapFolder(ctx, folderId, selection);
    const missing = isRemapped || arrivals.missing || changes.missing || late.missing;
    return {
      opened: true,
      interrupted: !late.complete,
      changed: missing || changes.flagsChanged || listed.length + changes.unknown.length > 0,
      missing,
      announced: changes.announced,
      leftOut: leftOut + late.leftOut.length,
      compared: [...arrivals.compared, ...late.compared, folder.id],
      othersFirst: null,
      renumbered: late.renumbered,
    };
  };
  const result = await withSelected(ctx.session, stored.path, work, (refusal) => ctx.refusals.note(folderId, refusal));
  if (!result) return notOpened;
  ctx.refusals.clear(folderId);
  return result;
}

/** INBOX is tried in each pass: it is selected anyway, to listen in it. */
function isDue({ refusals }: SyncContext, { id, role }: FolderState): boolean {
  return role === 'INBOX' || refusals.isDue(id);
}

interface OpenFolder {
  ctx: SyncContext;
  folder: FolderState;
  selection: Selection;
  /** as it was before the folder was selected */
  localRevision: number;
}

/** The folder with UIDs of its present UIDVALIDITY: its baseline is read, or its UIDs mapped, where either is due. */
async function mapUids(ctx: SyncContext, folder: FolderState, selection: Selection): Promise<FolderState> {
  if (folder.uidNext === null || folder.uidValidity === null) return readBaseline(ctx, folder, selection);
  if (folder.uidValidity === selection.uidValidity) return folder;
  return remapUids(ctx, folder, selection);
}

/** A folder that existed at connect and is opened for the first time: all messages in it are baseline. */
async function readBaseline(ctx: SyncContext, folder: FolderState, selection: Selection): Promise<FolderState> {
  const uidNext = folder.uidNext ?? selection.uidNext ?? (await firstFreeUid(ctx, selection));
  const values = {
    uidValidity: selection.uidValidity,
    uidNext,
    baselineUidNext: folder.baselineUidNext ?? uidNext,
    scannedFrom: folder.scannedFrom ?? (selection.exists === 0 ? 1 : uidNext),
  };
  await inLease(ctx.db, ctx.lease, (tx) => updateFolder(tx, folder.id, values));
  return { ...folder, ...values };
}

async function firstFreeUid(ctx: SyncContext, selection: Selection): Promise<number> {
  assertSelected(ctx.session, selection);
  const { uids } = await listUids(ctx.session);
  return (uids.at(-1) ?? 0) + 1;
}

interface ArrivalsResult extends Pick<FolderPassResult, 'missing' | 'compared' | 'othersFirst'> {
  /** with its cursor as it is now */
  folder: FolderState;
  /** false: the rest of the folder is left to a later pass */
  complete: boolean;
  /** UIDs name other messages than those stored of them: they have to be mapped first */
  renumbered: boolean;
  /** UIDs of messages for which the storage has no room */
  leftOut: number[];
}

/** Ingests messages of the folder that may be new, ascending. */
async function ingestArrivals(
  open: OpenFolder,
  options: FolderPassOptions,
  metas: MessageMeta[],
): Promise<ArrivalsResult> {
  const { ctx, selection } = open;
  let result: ArrivalsResult = {
    ...{ folder: open.folder, missing: false, compared: [], othersFirst: null },
    ...{ complete: true, renumbered: false, leftOut: [] },
  };
  for (let start = 0; start < metas.length; start += CHUNK) {
    const chunk = metas.slice(start, start + CHUNK);
    const { folder } = result;
    const compared = new Set([...options.compared, ...result.compared]);
    const others = await compareLookAlikes({ ...open, folder }, chunk, { ...options, compared });
    result = {
      ...result,
      missing: result.missing || others.missing,
      compared: [...result.compared, ...others.compared],
    };
    if (others.renumbered) return { ...result, complete: false, renumbered: true };
    if (others.othersFirst) return { ...result, complete: false, othersFirst: (metas.at(-1)?.uid ?? 0) + 1 };
    if (!(await ensureSelected(ctx.session, selection))) return { ...result, complete: false };
    const cursorLimit = cursorLimitOf(result.leftOut);
    const target = { folder, selection, source: 'live' as const, cursorLimit, localRevision: open.localRevision };
    const { uidNext, leftOut } = await ingest(ctx, target, chunk);
    result = { ...result, folder: { ...folder, uidNext }, leftOut: [...result.leftOut, ...leftOut] };
  }
  return result;
}

/**
 * Ingests messages below the cursor that are not stored: the server showed them only after it had raised UIDNEXT above
 * them.
 */
async function ingestUnknown(open: OpenFolder, options: FolderPassOptions, uids: number[]): Promise<ArrivalsResult> {
  const { ctx, selection } = open;
  const undelivered = undeliveredIn(ctx, open);
  let result = await ingestArrivals(open, options, []);
  for (let start = 0; start < uids.length && result.complete; start += CHUNK) {
    if (!(await ensureSelected(ctx.session, selection))) return { ...result, complete: false };
    const chunk = uids.slice(start, start + CHUNK);
    const fetch = (group: number[]) => fetchMetaIfSent(ctx.session, group, undelivered.failed);
    const metas = byUid(await fetchMetaDue(ctx, open, chunk, fetch));
    const { folder } = result;
    const ingested = await ingestArrivals({ ...open, folder }, { ...options, arrivalsBelow: Infinity }, metas);
    result = {
      ...ingested,
      missing: result.missing || ingested.missing,
      leftOut: [...result.leftOut, ...ingested.leftOut],
      compared: [...result.compared, ...ingested.compared],
    };
  }
  return result;
}

/** The messages at and above the cursor. */
async function listArrivals({ ctx, folder, selection }: OpenFolder, below = Infinity): Promise<MessageMeta[]> {
  const cursor = folder.uidNext ?? 1;
  // Some servers do not raise UIDNEXT; then only a greater number of messages shows that some arrived.
  if (selection.uidNext !== null && selection.uidNext <= cursor && selection.exists <= folder.totalCount) return [];
  if (below <= cursor) return [];
  assertSelected(ctx.session, selection);
  return fetchMetaFrom(ctx, { folder, selection }, { from: cursor, below });
}

/**
 * Whether an arrival was moved here, copied here or is new depends on whether its look-alike is still in another folder:
 * updates the vanished messages of those folders. May select other folders.
 */
async function compareLookAlikes(
  open: OpenFolder,
  metas: MessageMeta[],
  { everyFlag, compared, arrivalsBelow }: FolderPassOptions,
): Promise<{ missing: boolean; compared: string[]; othersFirst: boolean; renumbered: boolean }> {
  const { ctx, folder, selection } = open;
  const candidates = await findCandidates(ctx.db, ctx.account.id, metas);
  const none = { missing: false, compared: [], othersFirst: false, renumbered: false };
  let missing = false;
  // It may have left this folder and returned under another UID.
  const hasTwin = foldersToCheck('', metas, candidates).includes(folder.id);
  if (hasTwin) missing = (await findVanished(ctx, folder, selection, everyFlag)).missing;
  if (await isRenumbered(open, metas, hasTwin ? candidates : [])) return { ...none, missing, renumbered: true };
  // All Mail has a copy of every email. One that nothing matches arrived after the other folders were synced, or is in
  // All Mail only: those folders know.
  if (folder.role === 'ALL' && arrivalsBelow === undefined && hasUnmatched(folder, metas, candidates)) {
    return { ...none, missing, othersFirst: true };
  }
  const now: string[] = [];
  for (const id of foldersToCheck(folder.id, metas, candidates)) {
    if (compared.has(id)) continue;
    const other = await loadFolder(ctx.db, id);
    if (!other || !isComparable(folder, other)) continue;
    const compare = async (selectedOther: Selection) => {
      const mapped = await mapUids(ctx, other, selectedOther);
      if ((await findVanished(ctx, mapped, selectedOther, everyFlag)).missing) missing = true;
      now.push(id);
    };
    await withSelected(ctx.session, other.path, compare, (refusal) => ctx.refusals.note(id, refusal));
  }
  return { ...none, missing, compared: now };
}

/**
 * Whether the server has renumbered the folder under the same UIDVALIDITY: the UID of a stored message that an arrival
 * has, or that an arrival resembles, names another message now.
 */
async function isRenumbered(
  { ctx, folder }: OpenFolder,
  metas: MessageMeta[],
  candidates: Candidate[],
): Promise<boolean> {
  const arrived = new Map(metas.map((meta) => [meta.uid, meta]));
  const known = await locationsAt(ctx.db, folder.id, [...arrived.keys()]);
  const isOther = (meta: MessageMeta | undefined, stored: Candidate) => meta && !isSameMessage(meta, stored);
  if (known.some((location) => isOther(arrived.get(location.uid), location))) return true;
  const twins = candidates.filter(
    ({ folderId, uid, vanishedAt }) => folderId === folder.id && !vanishedAt && !arrived.has(uid),
  );
  const present = new Map(
    (
      await fetchMetaIfSent(
        ctx.session,
        twins.slice(0, CHUNK).map(({ uid }) => uid),
      )
    ).map((meta) => [meta.uid, meta]),
  );
  return twins.some((twin) => isOther(present.get(twin.uid), twin));
}

function hasUnmatched(folder: FolderState, metas: MessageMeta[], candidates: Candidate[]): boolean {
  return [...matchMessages(folder.id, metas, candidates).values()].some(({ kind }) => kind === 'new');
}

/** In Gmail every email is in All Mail too, which says nothing about a move. A folder being vacated has no messages. */
function isComparable(folder: FolderState, other: FolderState): boolean {
  return folder.role !== 'ALL' && other.role !== 'ALL' && other.uidNext !== null && !other.vacating;
}

interface ChangesResult {
  /** with its cursor as it is now */
  folder: FolderState;
  /** emails left the folder */
  missing: boolean;
  flagsChanged: boolean;
  /** UIDs below the cursor that are not stored */
  unknown: number[];
  /** as in FolderPassResult */
  announced: boolean;
}

/** Applies flags and vanished messages since the last pass, and saves how far the store is equal to the folder. */
async function applyChanges(open: OpenFolder, everyFlag: boolean): Promise<ChangesResult> {
  const { ctx, folder, selection, localRevision } = open;
  const stored = folder.highestModseq === null ? null : BigInt(folder.highestModseq);
  const current = selection.highestModseq;
  let modseq = current;
  let missing = false;
  let flagsChanged = false;
  assertSelected(ctx.session, selection);
  const withoutChanges = current === null || stored === null || current < stored;
  if (withoutChanges || !folder.flagsRead) {
    // No MODSEQ to start from, it went backwards, or flags were never stored: compare everything once.
    const flags = await readFlags(ctx, selection, current !== null || everyFlag || !folder.flagsRead);
    flagsChanged = await applyFlags(ctx, folder, flags, localRevision);
  } else if (current > stored) {
    const changes = await changesSince(open, stored);
    flagsChanged = await applyFlags(ctx, folder, changes.flags, localRevision);
    if (changes.vanished) missing = await applyVanishedRanges(ctx, folder, changes.vanished);
    if (changes.modseq > current) modseq = changes.modseq;
  }
  // VANISHED is read with the changes
  const isCompared = everyFlag || withoutChanges;
  const { uidNext, unknown, announced, ...vanished } = await findVanished(ctx, folder, selection, isCompared);
  await saveProgress(open, modseq, uidNext);
  return { folder: { ...folder, uidNext }, missing: missing || vanished.missing, flagsChanged, unknown, announced };
}

/** Of a folder of which the server lists more changes than are read of any, the next pass compares everything. */
async function changesSince({ ctx, folder }: OpenFolder, modseq: bigint): Promise<Changes> {
  try {
    return await fetchChanges(ctx.session, modseq);
  } catch (error) {
    if (error instanceof MailError && error.flooded) {
      await inLease(ctx.db, ctx.lease, (tx) => updateFolder(tx, folder.id, { highestModseq: null }));
    }
    throw error;
  }
}

async function saveProgress(
  { ctx, folder, selection, localRevision }: OpenFolder,
  modseq: bigint | null,
  uidNext: number,
): Promise<void> {
  const highestModseq = modseq === null ? null : modseq.toString();
  const totalCount = selection.exists - undeliveredIn(ctx, { folder, selection }).count();
  const isSame = highestModseq === folder.highestModseq && totalCount === folder.totalCount;
  if (isSame && uidNext === folder.uidNext && folder.flagsRead) return;
  await inLease(ctx.db, ctx.lease, async (tx) => {
    const stored = await loadFolder(tx, folder.id);
    // Another process has mapped it to other UIDs since.
    if (stored?.uidValidity !== selection.uidValidity) return;
    // What this API has changed since is counted already.
    const isUntouched = stored.localRevision === localRevision;
    const counters = isUntouched ? { totalCount } : {};
    // This pass may have read changes of messages that this API had not stored yet: the next one reads them again.
    const changes =
      isUntouched && stored.highestModseq === folder.highestModseq ? { highestModseq, flagsRead: true } : {};
    await updateFolder(tx, folder.id, { ...changes, uidNext, ...counters });
  });
}

async function readFlags(ctx: SyncContext, selection: Selection, everything: boolean): Promise<MessageFlags[]> {
  return selection.exists === 0 ? [] : fetchNewestFlags(ctx.session, everything ? Infinity : NEWEST);
}
