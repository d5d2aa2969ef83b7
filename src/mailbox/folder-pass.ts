import { inLease } from '../db/lease.ts';
import { recordEvents } from '../db/outbox.ts';
import {
  fetchChanges,
  fetchFlags,
  fetchFlagsBySequence,
  fetchMeta,
  MAX_UID,
  type MessageFlags,
  type MessageMeta,
} from '../imap/fetch.ts';
import { fetchUids, searchUids } from '../imap/search.ts';
import { type SelectedFolder, selectFolder, trySelect } from '../imap/select.ts';
import type { UidRange } from '../imap/imapflow-patches.ts';
import { MailError } from '../mail-error.ts';
import { changeEmails, deletionEvents } from './change-emails.ts';
import { applyFlags } from './changes/flags.ts';
import type { SyncContext } from './context.ts';
import { remapUids } from './folders/uidvalidity.ts';
import { ingest } from './ingest/ingest.ts';
import { foldersToCheck, matchMessages } from './ingest/match.ts';
import { deleteEmails, findMissing, loadStoredEmails } from './store/emails.ts';
import { getLocalRevision, type FolderState, countLocations, recountLocations, updateFolder } from './store/folders.ts';
import {
  type Candidate,
  emailsAt,
  findCandidates,
  deleteVanished,
  deleteVanishedBefore,
  knownUids,
  markVanished,
} from './store/locations.ts';

/** What one round over the folders keeps in mind. */
export interface SyncPass {
  /** every folder of the account by id; changed in place as cursors move */
  folders: Map<string, FolderState>;
  /** folders whose vanished mail has been looked for in this round */
  checked: Set<string>;
  /** some mail left a folder: every folder is to be looked at before it is known where it went */
  missing: boolean;
  /** looks at the folder list, and at all folders in which something changed but this one */
  syncOthers(but: FolderState): Promise<void>;
  /** compare all flags, not just the newest, where the server keeps no MODSEQ */
  thorough: boolean;
}

/** New messages that are looked up at once. */
const CHUNK = 500;

/** Flags of this many newest messages are compared each time on servers without CONDSTORE. */
const NEWEST = 200;

/**
 * Brings one folder up to date: new mail, then flags and vanished mail below the cursor. What the server refuses to
 * open is left for the next look at the folder list.
 * @returns false when the folder could not be opened
 */
export async function syncFolder(ctx: SyncContext, folder: FolderState, round: SyncPass): Promise<boolean> {
  const localRevision = await getLocalRevision(ctx.db, folder.id);
  const selected = await open(ctx, folder);
  if (!selected) return false;
  await ingestNew(ctx, folder, selected, round);
  await applyChanges(ctx, folder, selected, round, localRevision);
  return true;
}

/** SELECT, and a baseline or a new mapping of UIDs where one is due; null when the server refuses. */
async function open(ctx: SyncContext, folder: FolderState): Promise<SelectedFolder | null> {
  const selected = await trySelect(ctx.session, folder.path);
  if (!selected) return null;
  if (folder.uidNext === null || folder.uidValidity === null) await readBaseline(ctx, folder, selected);
  else if (folder.uidValidity !== selected.uidValidity) Object.assign(folder, await remapUids(ctx, folder, selected));
  return selected;
}

/** A folder that was there at connect and is opened for the first time: all in it is baseline. */
async function readBaseline(ctx: SyncContext, folder: FolderState, selected: SelectedFolder): Promise<void> {
  const known = folder.uidNext;
  const uidNext = known ?? selected.uidNext ?? (await firstFreeUid(ctx));
  const values = {
    uidValidity: selected.uidValidity,
    uidNext,
    baselineUidNext: folder.baselineUidNext ?? uidNext,
    scannedFrom: folder.scannedFrom ?? (selected.exists === 0 ? 1 : uidNext),
  };
  await inLease(ctx.db, ctx.lease, (tx) => updateFolder(tx, folder.id, values));
  Object.assign(folder, values);
}

async function firstFreeUid(ctx: SyncContext): Promise<number> {
  const metas = await fetchMeta(ctx.session, 1);
  return (metas.at(-1)?.uid ?? 0) + 1;
}

async function ingestNew(
  ctx: SyncContext,
  folder: FolderState,
  selected: SelectedFolder,
  round: SyncPass,
): Promise<void> {
  const cursor = folder.uidNext ?? 1;
  // Some servers forget to count UIDNEXT up; that there are more messages tells then.
  if (selected.uidNext !== null && selected.uidNext <= cursor && selected.exists <= folder.totalCount) return;
  const metas = await fetchMeta(ctx.session, cursor);
  for (let start = 0; start < metas.length; start += CHUNK) {
    await ingestChunk(ctx, folder, selected, metas.slice(start, start + CHUNK), round);
  }
}

async function ingestChunk(
  ctx: SyncContext,
  folder: FolderState,
  selected: SelectedFolder,
  metas: MessageMeta[],
  round: SyncPass,
): Promise<void> {
  // What looks like mail that lies elsewhere was moved, copied, or is new: that other folder tells.
  const candidates = await findCandidates(ctx.db, ctx.account.id, metas);
  // It may have left this folder and come back under another UID.
  if (foldersToCheck('', metas, candidates).includes(folder.id)) await findVanished(ctx, folder, selected, round);
  let left = false;
  if (folder.role === 'ALL' && hasUnmatched(folder, metas, candidates)) {
    // They have come since the other folders were looked at, or lie here alone; these tell where else they lie.
    await round.syncOthers(folder);
    left = true;
  }
  for (const id of foldersToCheck(folder.id, metas, candidates)) {
    const other = round.folders.get(id);
    if (!other || round.checked.has(id) || !needsCheck(folder, other)) continue;
    left = true;
    const selectedOther = await open(ctx, other);
    if (selectedOther) await findVanished(ctx, other, selectedOther, round);
  }
  if (left) await selectFolder(ctx.session, folder.path);
  await ingest(ctx, folder, metas, 'arriving');
}

function hasUnmatched(folder: FolderState, metas: MessageMeta[], candidates: Candidate[]): boolean {
  return [...matchMessages(folder.id, metas, candidates).values()].some(({ kind }) => kind === 'new');
}

/** In Gmail every mail lies in All Mail too, which says nothing about a move. */
function needsCheck(folder: FolderState, other: FolderState): boolean {
  return folder.role !== 'ALL' && other.role !== 'ALL' && other.uidNext !== null;
}

/** Flags and vanished mail since the folder was looked at last. */
async function applyChanges(
  ctx: SyncContext,
  folder: FolderState,
  selected: SelectedFolder,
  round: SyncPass,
  localRevision: number,
): Promise<void> {
  const stored = folder.highestModseq === null ? null : BigInt(folder.highestModseq);
  const now = selected.highestModseq;
  let modseq = now;
  if (now !== null && stored !== null && now >= stored) {
    if (now > stored) {
      const changes = await fetchChanges(ctx.session, stored);
      await applyFlags(ctx, folder, changes.flags, localRevision);
      if (changes.vanished) await applyVanished(ctx, folder, await onlyKnown(ctx, folder, changes.vanished), round);
      if (changes.modseq > now) modseq = changes.modseq;
    }
    await findVanished(ctx, folder, selected, round);
  } else {
    // No MODSEQ to start from, or it went backwards: compare everything once.
    const everything = now !== null || round.thorough;
    if (selected.exists > 0) await applyFlags(ctx, folder, await readFlags(ctx, selected, everything), localRevision);
    await findVanished(ctx, folder, selected, round);
  }
  const values = { highestModseq: modseq === null ? null : modseq.toString(), totalCount: selected.exists };
  if (values.highestModseq !== folder.highestModseq || values.totalCount !== folder.totalCount) {
    await inLease(ctx.db, ctx.lease, async (tx) => {
      // What this API has changed since then is counted already.
      const { totalCount: _, ...cursor } = values;
      await updateFolder(tx, folder.id, (await getLocalRevision(tx, folder.id)) === localRevision ? values : cursor);
    });
    Object.assign(folder, values);
  }
}

function readFlags(ctx: SyncContext, selected: SelectedFolder, everything: boolean): Promise<MessageFlags[]> {
  if (everything || selected.exists <= NEWEST) return fetchFlags(ctx.session, '1:*');
  return fetchFlagsBySequence(ctx.session, `${selected.exists - NEWEST + 1}:*`);
}

/** Where the number of messages does not add up, the UIDs that are there tell which have vanished. */
async function findVanished(
  ctx: SyncContext,
  folder: FolderState,
  selected: SelectedFolder,
  round: SyncPass,
): Promise<void> {
  round.checked.add(folder.id);
  const known = await countLocations(ctx.db, folder.id);
  // Baseline mail that is not scanned yet is not known: fewer known than there is no sign then.
  const untaken = selected.uidNext === null || selected.uidNext > (folder.uidNext ?? 1);
  if ((known === selected.exists && !untaken) || (known === 0 && folder.scannedFrom !== 1)) return;
  if (folder.scannedFrom !== 1 && selected.highestModseq !== null && ctx.session.qresync && !round.thorough) return;
  const cursor = folder.uidNext ?? 1;
  const there = new Set(await allUids(ctx, selected));
  const stored = await knownUids(ctx.db, folder.id, 1, cursor);
  if (stored.length !== known && !untaken) await inLease(ctx.db, ctx.lease, (tx) => recountLocations(tx, folder.id));
  const gone = stored.filter((uid) => !there.has(uid));
  await applyVanished(ctx, folder, gone, round);
}

/** Every UID of the folder; an answer that leaves out some must not pass for mail that was deleted. */
async function allUids(ctx: SyncContext, selected: SelectedFolder): Promise<number[]> {
  const found = await searchUids(ctx.session, MAX_UID + 1);
  const { mailbox } = ctx.session.client;
  if (!mailbox) throw new MailError('provider_error', 'imap', 'the connection was closed');
  const exists = Math.min(selected.exists, mailbox.exists);
  if (found.length >= exists) return found;
  const fetched = await fetchUids(ctx.session, MAX_UID + 1);
  if (fetched.length >= exists || fetched.length === found.length) return fetched;
  throw new MailError('provider_error', 'imap', 'the IMAP server left out messages');
}

async function onlyKnown(ctx: SyncContext, folder: FolderState, vanished: UidRange[]): Promise<number[]> {
  if (vanished.length === 0) return [];
  const known = await knownUids(ctx.db, folder.id, 1, folder.uidNext ?? 1);
  const ranges = [...vanished].sort((a, b) => a.from - b.from);
  let at = 0;
  return known.filter((uid) => {
    while (at < ranges.length && (ranges[at] as UidRange).to < uid) at++;
    const range = ranges[at];
    return range !== undefined && range.from <= uid;
  });
}

async function applyVanished(ctx: SyncContext, folder: FolderState, uids: number[], round: SyncPass): Promise<void> {
  for (let start = 0; start < uids.length; start += 500) {
    const batch = uids.slice(start, start + 500);
    await inLease(ctx.db, ctx.lease, async (tx) => {
      const now = new Date();
      const emails = await emailsAt(tx, folder.id, batch);
      await changeEmails(tx, ctx.lease, [...emails.values()], now, () => markVanished(tx, folder.id, batch, now));
    });
    round.missing = true;
  }
}

/**
 * Every folder has been looked at since `lookedSince`: mail that had left a folder before that lies where it is known to
 * lie, and what lies nowhere is deleted for good (QUALITY "Sync" 4).
 */
export async function finishMissing(ctx: SyncContext, lookedSince: Date): Promise<void> {
  for (;;) {
    const { keys, done } = await inLease(ctx.db, ctx.lease, async (tx) => {
      const found = [...(await loadStoredEmails(tx, await findMissing(tx, ctx.account.id, lookedSince))).values()];
      if (found.length === 0) {
        return { keys: [], done: await deleteVanishedBefore(tx, ctx.account.id, lookedSince) };
      }
      const now = new Date();
      const staying = found.filter((email) => !email.gone).map(({ row }) => row.id);
      await changeEmails(tx, ctx.lease, staying, now, () => deleteVanished(tx, staying));
      const deleted = found.filter((email) => email.gone);
      await recordEvents(tx, ctx.account.id, await deletionEvents(tx, deleted, now));
      return {
        keys: await deleteEmails(
          tx,
          deleted.map(({ row }) => row.id),
        ),
        done: false,
      };
    });
    if (done) return;
    if (keys.length > 0) await ctx.storage.delete(keys);
  }
}
