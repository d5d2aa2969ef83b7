import type { FolderStatus } from '../imap/list.ts';
import { inLease } from '../db/coordination/lease.ts';
import { NOT_DELIVERED } from '../db/queries/account-object.ts';
import { isScanned } from './baseline.ts';
import { changeEmails, recordDeletions } from './change-emails.ts';
import { endAbandonedMoves } from './changes/pending-removals.ts';
import type { SyncContext } from './context.ts';
import { syncFolder } from './folder-pass.ts';
import { DoubtfulList, type FolderListPass, saveUnexplained, syncFolders } from './folders/list-pass.ts';
import { MailError, reasonOf } from '../mail-wire/mail-error.ts';
import { undeliveredIn } from './ingest/fetch.ts';
import type { NotDelivered } from './ingest/undelivered.ts';
import { selectedPath } from './selected.ts';
import { saveWatchFailure, touchSynced } from './settings.ts';
import { locateEmails } from './store/email-states.ts';
import { deleteEmails, findMissing } from './store/emails.ts';
import { type FolderState, loadFolders } from './store/folders.ts';
import { deleteVanished, deleteVanishedBefore, vanishedBy } from './store/vanished-locations.ts';

/** Consecutive passes while folders keep changing; a later sync then decides about the emails that left one. */
const MAX_PASSES = 5;

/** How long emails stay undecided while a folder cannot be opened, or folders keep changing, in milliseconds. */
const REFUSED_MS = 15 * 60_000;

/** How long emails stay undecided while a folder announces a message that it does not show, in milliseconds. */
const ANNOUNCED_MS = 10_000;

export interface SyncOptions {
  /** no folder list has been requested on this connection yet */
  freshSession?: boolean;
  /** compares all flags of folders without MODSEQ, and decides about missing emails whatever the passes find */
  thorough?: boolean;
  /** paths of folders to sync even if their counters did not change */
  changed?: ReadonlySet<string>;
  /** an earlier pass found that emails left a folder: decide about them */
  missingBefore?: boolean;
  /** ids of folders in which an earlier pass found a message announced that they do not show */
  announced?: ReadonlySet<string>;
}

/**
 * Syncs the folder list and every folder in which something changed, then decides what became of emails that left a
 * folder: that takes a pass during and after which no folder changed.
 * @throws DoubtfulList; MailError; LeaseLost
 */
export async function syncMailbox(ctx: SyncContext, options: SyncOptions): Promise<SyncedList> {
  const { freshSession = false, thorough = false, changed = new Set<string>() } = options;
  const startedAt = new Date();
  const list = await syncFolders(ctx, { freshSession });
  const due = foldersOf(list).filter(
    (folder) =>
      folder.selectable &&
      (list.dirty.has(folder.id) || changed.has(folder.path) || (thorough && lacksModseq(ctx, folder))),
  );
  const decide = thorough || (options.missingBefore ?? false);
  const passes = await syncUntilSettled(ctx, { startedAt, list, due, decide, announced: options.announced }, thorough);
  if (passes.decide) await decideMissing(ctx, passes.startedAt);
  await endAbandonedMoves(ctx, { synced: passes.refused.length === 0 && !passes.undecided });
  const failure = failureOf(ctx, passes);
  const missing = await notePass(ctx, failure, notDelivered(ctx, passes.list));
  // a later pass decides about what left before it began, whatever the clock was then
  if (missing) await inLease(ctx.db, ctx.lease, (tx) => vanishedBy(tx, ctx.account.id, new Date()));
  return { ...passes.list, missing, undecided: passes.undecided, failure };
}

/** Whether nothing but a comparison shows which flags changed: a server with CONDSTORE may keep no MODSEQ of some folders. */
function lacksModseq({ session }: SyncContext, { highestModseq }: FolderState): boolean {
  return !session.condstore || !Number(highestModseq);
}

/** Stores whether the account is in sync; returns whether emails may have left a folder about which nothing is decided. */
async function notePass(ctx: SyncContext, failure: string | undefined, undelivered: string): Promise<boolean> {
  if (failure === undefined) return touchSynced(ctx.db, ctx.lease, new Date(), undelivered);
  await inLease(ctx.db, ctx.lease, (tx) => saveWatchFailure(tx, ctx.account.id, failure));
  return true;
}

/** The reason why the account is not in sync after a pass that succeeded. */
function failureOf({ refusals }: SyncContext, { refused, leftOut }: SettledPass): string | undefined {
  if (refused.length > 0) return refusals.describe(refused);
  return leftOut > 0 ? `the storage is full: ${leftOut} of the messages wait for room` : undefined;
}

/** Names the first message that the server does not deliver, for people; empty: it delivers all. */
function notDelivered(ctx: SyncContext, list: FolderListPass): string {
  for (const folder of foldersOf(list)) {
    const { uidValidity } = folder;
    const [first] = uidValidity === null ? [] : undeliveredIn(ctx, { folder, selection: { uidValidity } }).pending();
    if (first) return `${NOT_DELIVERED}${detailOf(first)} (in the folder ${folder.id})`;
  }
  return '';
}

const detailOf = ({ reason }: NotDelivered) => (reason instanceof MailError ? reason.detail : reasonOf(reason));

/** The folder list that a sync used last. */
export interface SyncedList extends FolderListPass {
  /** emails left a folder, and nothing is decided about them: the next sync does */
  missing: boolean;
  /** folders kept changing, or one does not show all of its messages: the next sync follows soon */
  undecided?: boolean;
  /** why the account is not in sync after the pass; left out: it is */
  failure?: string | undefined;
}

/** The input of one pass over the folders. */
interface Pass {
  startedAt: Date;
  list: FolderListPass;
  /** folders to sync */
  due: FolderState[];
  /** emails left a folder: whether they moved or were deleted must be decided */
  decide: boolean;
  announced?: ReadonlySet<string> | undefined;
}

/**
 * Makes passes while emails leave folders. An email may have moved to a folder after that was listed or synced: what
 * became of it can be decided (`decide`) when no folder changed since the last pass.
 */
async function syncUntilSettled(ctx: SyncContext, first: Pass, thorough: boolean): Promise<SettledPass> {
  let pass = first;
  let interrupted = false;
  let settled = false;
  let refused: ReadonlySet<string> = new Set();
  let announced: ReadonlySet<string> = first.announced ?? new Set();
  const leftOut = new Map<string, number>();
  for (let count = 1; ; count++) {
    const synced = await syncEach(ctx, pass.due, thorough, pass.list.counters);
    interrupted ||= synced.interrupted;
    for (const [id, messages] of synced.leftOut) leftOut.set(id, messages);
    const opened = new Set(pass.due.map(({ id }) => id).filter((id) => !synced.refused.has(id)));
    refused = new Set([...refused, ...synced.refused].filter((id) => !opened.has(id)));
    announced = new Set([...[...announced].filter((id) => !opened.has(id)), ...synced.announced]);
    const leftFolders = pass.list.missing || synced.missing;
    pass = { ...pass, decide: pass.decide || leftFolders };
    if (!pass.decide || count === MAX_PASSES) break;
    const startedAt = new Date();
    const list = await syncFolders(ctx);
    const next = { startedAt, list, due: dirtyOf(list), decide: true };
    // A folder that its pass leaves dirty, as miscounting servers do, has not changed.
    const changed = next.due.some(({ id }) => !pass.list.dirty.has(id));
    settled = !leftFolders && !list.missing && !changed;
    pass = settled ? { ...pass, list } : next;
    if (settled) break;
  }
  const messages = [...leftOut.values()].reduce((sum, each) => sum + each, 0);
  const outcome = { interrupted, settled, announced: announced.size > 0, refused };
  return { ...settledPass(pass, outcome), leftOut: messages };
}

/** The work that remains after the last pass. */
function settledPass(
  pass: Pass,
  { interrupted, settled, announced, refused }: PassOutcome,
): Omit<SettledPass, 'leftOut'> {
  // The contents of a folder that was not synced completely are unknown: a later sync decides.
  const decide = pass.decide && !interrupted;
  const listed = [...refused].filter((id) => isMissed(pass.list.folders.get(id)));
  // An email may be in a folder that the server refuses to open just now, be moved again and again, or be announced alone: the
  // decision about an email that left a folder is delayed, but not forever.
  const undecided = pass.decide && (interrupted || !settled || announced);
  const waits = listed.length > 0 || !settled ? REFUSED_MS : announced ? ANNOUNCED_MS : 0;
  const startedAt = new Date(pass.startedAt.getTime() - waits);
  return { ...pass, decide, undecided, refused: listed, startedAt };
}

interface PassOutcome {
  /** the rest of a folder is left to a later sync */
  interrupted: boolean;
  /** no folder changed since the last pass */
  settled: boolean;
  /** a folder announces a message that it does not show */
  announced: boolean;
  /** ids of the folders that could not be opened or read */
  refused: ReadonlySet<string>;
}

/** Whether a folder that was not read should have been: one that was never readable may be closed to this login. */
function isMissed(folder: FolderState | undefined): boolean {
  return folder !== undefined && folder.selectable && folder.uidNext !== null;
}

interface SettledPass extends Pass {
  undecided: boolean;
  /** ids of listed folders that could not be opened or read */
  refused: string[];
  /** messages for which the storage has no room */
  leftOut: number;
}

/** Syncs the folders of which the server sent a notification; all, when emails left them or one could not be opened. */
export async function syncNotified(
  ctx: SyncContext,
  list: SyncedList,
  paths: ReadonlySet<string>,
): Promise<SyncedList> {
  const folders = foldersOf(list).filter((folder) => paths.has(folder.path));
  const { missing, refused, announced } = await syncEach(ctx, folders, false);
  if (refused.size === 0 && !missing && folders.length === paths.size) return list;
  return syncMailbox(ctx, { missingBefore: missing, announced });
}

/** Selects INBOX, where IDLE listens (another folder, if the account does not include INBOX), and ingests what arrived there while another folder was selected. */
export async function selectInbox(ctx: SyncContext, list: SyncedList): Promise<SyncedList> {
  for (let current = list; ; ) {
    const folders = foldersOf(current).filter(({ selectable }) => selectable);
    const inbox = folders.find((folder) => folder.role === 'INBOX') ?? folders[0];
    if (!inbox || selectedPath(ctx.session) === inbox.path || !ctx.refusals.isDue(inbox.id)) return current;
    const { missing, refused, announced } = await syncEach(ctx, [inbox], false);
    if (!missing || refused.size > 0) return current;
    current = await syncMailbox(ctx, { missingBefore: true, announced });
  }
}

/**
 * Syncs the whole mailbox once, alongside the watch: afterwards the store has the location of every email, and no deleted
 * ones. Folders with the paths `changed` are synced even if their counters did not change.
 */
export async function syncOnce(
  ctx: SyncContext,
  options: Pick<SyncOptions, 'changed' | 'thorough'>,
): Promise<SyncedList> {
  const scanned = isScanned(await loadFolders(ctx.db, ctx.account.id));
  const own = { ...ctx, baselineKnown: () => scanned };
  for (let renewals = 0; ; renewals++) {
    try {
      return await syncMailbox(own, { ...options, missingBefore: true, freshSession: renewals > 0 });
    } catch (error) {
      if (!(error instanceof DoubtfulList) || renewals === MAX_RENEWALS) throw error;
      // Not in parallel: the server may allow no further connection.
      await own.session.renew();
    }
  }
}

/** Another folder may disappear during the pass on the new connection. */
const MAX_RENEWALS = 5;

interface FoldersSynced {
  /** emails left a folder */
  missing: boolean;
  /** ids of the folders that could not be opened or read */
  refused: ReadonlySet<string>;
  /** ids of the folders that announce a message that they do not show */
  announced: ReadonlySet<string>;
  /** the rest of a folder is left to the next sync */
  interrupted: boolean;
  /** messages of each folder for which the storage has no room */
  leftOut: ReadonlyMap<string, number>;
}

/** Syncs folders one after the other; `counters` are those of the dirty ones. */
async function syncEach(
  ctx: SyncContext,
  folders: FolderState[],
  thorough: boolean,
  counters: ReadonlyMap<string, FolderStatus> = new Map(),
): Promise<FoldersSynced> {
  /** folders whose vanished messages are known in this pass */
  const compared = new Set<string>();
  let missing = false;
  const refused = new Set<string>();
  const announced = new Set<string>();
  let interrupted = false;
  const leftOut = new Map<string, number>();
  const sync = async (folder: FolderState, arrivalsBelow?: number) => {
    const { id } = folder;
    const everyFlag = thorough && lacksModseq(ctx, folder);
    const result = await syncFolder(ctx, id, { everyFlag, compared, arrivalsBelow });
    for (const other of result.compared) compared.add(other);
    missing ||= result.missing;
    interrupted ||= result.interrupted;
    leftOut.set(id, result.leftOut);
    if (result.opened) refused.delete(id);
    else refused.add(id);
    if (result.announced) announced.add(id);
    else announced.delete(id);
    return result;
  };
  for (const folder of inSyncOrder(folders)) {
    let result = await sync(folder);
    if (result.othersFirst !== null) {
      const list = await syncFolders(ctx);
      missing ||= list.missing;
      for (const other of inSyncOrder(dirtyOf(list))) if (other.id !== folder.id) await sync(other);
      result = await sync(folder, result.othersFirst);
    }
    const counted = counters.get(folder.id);
    if (counted && result.opened && !result.changed) await saveUnexplained(ctx, folder, counted);
  }
  return { missing, refused, announced, interrupted, leftOut };
}

/**
 * INBOX first, since its events are waited for; Trash and Spam after the folders that emails leave for them; All Mail
 * last: an email that is in other folders too is matched by those, as a draft is by Drafts.
 */
function inSyncOrder(folders: FolderState[]): FolderState[] {
  const ranks: Partial<Record<string, number>> = { INBOX: 0, TRASH: 2, SPAM: 2, ALL: 3 };
  const rank = (folder: FolderState) => ranks[folder.role] ?? 1;
  return [...folders].sort((a, b) => rank(a) - rank(b));
}

const foldersOf = (list: FolderListPass): FolderState[] => [...list.folders.values()];
const dirtyOf = (list: FolderListPass): FolderState[] =>
  foldersOf(list).filter(({ id, selectable }) => selectable && list.dirty.has(id));

/**
 * Every folder has been synced since `startedAt`: emails that had left a folder before are where the store has located
 * them, and those without any location were deleted.
 */
export async function decideMissing(ctx: SyncContext, startedAt: Date): Promise<void> {
  for (;;) {
    const { done, unusedKeys } = await inLease(ctx.db, ctx.lease, async (tx) => {
      const missingIds = await findMissing(tx, ctx.account.id, startedAt);
      const missing = [...(await locateEmails(tx, missingIds)).values()];
      if (missing.length === 0) {
        return { done: await deleteVanishedBefore(tx, ctx.account.id, startedAt), unusedKeys: [] };
      }
      const now = new Date();
      const located = missing.filter((email) => !email.gone).map(({ id }) => id);
      await changeEmails(tx, { lease: ctx.lease, emailIds: located, now }, () => deleteVanished(tx, located));
      const deleted = missing.filter((email) => email.gone);
      await recordDeletions(tx, ctx.account.id, deleted, now);
      const ids = deleted.map(({ id }) => id);
      return { done: false, unusedKeys: await deleteEmails(tx, ids) };
    });
    if (done) return;
    if (unusedKeys.length > 0) await ctx.storage.delete(unusedKeys);
  }
}
