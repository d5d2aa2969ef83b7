import { inLease } from '../db/lease.ts';
import { listenForChanges } from '../imap/idle.ts';
import { MailError } from '../mail-error.ts';
import { isScanned } from './baseline.ts';
import type { SyncContext } from './context.ts';
import { finishMissing, type SyncPass, syncFolder } from './folder-pass.ts';
import { DoubtfulList, type FolderListPass, syncFolders } from './folders/list-pass.ts';
import { touchSynced } from './settings.ts';
import { type FolderState, loadFolders } from './store/folders.ts';

export interface WatchOptions {
  /** how often every folder is looked at, in milliseconds */
  pollMs: number;
  /** ends the watch in good order */
  signal: AbortSignal;
  /** called once the mailbox has been brought up to date */
  onInSync(): Promise<void>;
}

/** All flags are compared this often where the server keeps no MODSEQ. */
const THOROUGH_MS = 5 * 60_000;

/** Looks at all folders in a row while mail keeps leaving them; what is still missing is decided at the next look. */
const MAX_PASSES = 3;

/**
 * Watches one mailbox until the signal: brings the store up to date, then listens on INBOX (IDLE) and, with NOTIFY, on
 * every folder; looks at all folders every `pollMs` besides. Does not know who runs it.
 * @throws MailError when the connection or the server fails; LeaseLost when another holder took over
 */
export async function watch(ctx: SyncContext, options: WatchOptions): Promise<void> {
  const stop = () => ctx.session.client.close();
  options.signal.addEventListener('abort', stop, { once: true });
  try {
    for (let doubtful = true; doubtful; ) doubtful = await watchOnce(ctx, options);
  } catch (error) {
    if (!options.signal.aborted) throw error;
  } finally {
    options.signal.removeEventListener('abort', stop);
  }
}

/** Watches on one connection; true when the watch is to go on with the new one that it opened. */
async function watchOnce(ctx: SyncContext, options: WatchOptions): Promise<boolean> {
  try {
    await watchOpen(ctx, options);
    return false;
  } catch (error) {
    if (!(error instanceof DoubtfulList)) throw error;
    await ctx.session.end();
    ctx.session = await ctx.reopen();
    ctx.freshSession = true;
    return !options.signal.aborted;
  }
}

async function watchOpen(ctx: SyncContext, { pollMs, signal, onInSync: onInStep }: WatchOptions): Promise<void> {
  const listener = await listenForChanges(ctx.session);
  let look = await syncMailbox(ctx, { thorough: true });
  await onInStep();
  let thoroughAt = Date.now();
  let polledAt = Date.now();
  while (!signal.aborted) {
    look = await selectInbox(ctx, look);
    await listener.wait(Math.max(1, polledAt + pollMs - Date.now()), signal);
    if (signal.aborted) return;
    if (!ctx.session.client.usable) throw new MailError('provider_error', 'imap', 'the connection was closed');
    const news = listener.take();
    const poll = Date.now() - polledAt >= pollMs;
    const thorough = poll && Date.now() - thoroughAt >= THOROUGH_MS;
    if (poll || news.list) look = await syncMailbox(ctx, { thorough, heard: news.folders });
    else if (news.folders.size > 0) look = await syncNotified(ctx, look, news.folders);
    if (poll) polledAt = Date.now();
    if (thorough) thoroughAt = Date.now();
  }
}

/**
 * Looks at the whole mailbox once, beside whoever watches it: the store knows then where all mail lies, and what was
 * deleted. The folders `heard` (paths) are looked at whatever their counters say.
 */
export async function syncOnce(ctx: SyncContext, heard: Set<string>): Promise<void> {
  const scanned = isScanned(await loadFolders(ctx.db, ctx.account.id));
  const own = { ...ctx, baselineKnown: () => scanned };
  try {
    await syncMailbox(own, { heard, pending: true });
  } catch (error) {
    if (!(error instanceof DoubtfulList)) throw error;
    own.session = await ctx.reopen();
    own.freshSession = true;
    try {
      await syncMailbox(own, { heard, pending: true });
    } finally {
      await own.session.end();
    }
  }
}

/** Looks at the folder list and at every folder in which something changed; decides what became of missing mail. */
async function syncMailbox(
  ctx: SyncContext,
  {
    thorough = false,
    heard = new Set<string>(),
    pending = false,
  }: { thorough?: boolean; heard?: Set<string>; pending?: boolean },
): Promise<FolderListPass> {
  const everyFlag = thorough && !ctx.session.condstore;
  let since = new Date();
  let look = await syncFolders(ctx);
  let todo = [...look.folders.values()].filter(
    (folder) => look.dirty.has(folder.id) || heard.has(folder.path) || (everyFlag && folder.selectable),
  );
  let missing = look.missing;
  let anyMissing = thorough || pending || missing;
  for (let pass = 1; ; pass++) {
    const round = newPass(ctx, look, everyFlag);
    for (const folder of inSyncOrder(todo)) await syncFolder(ctx, folder, round);
    missing ||= round.missing;
    anyMissing ||= missing;
    if (!missing || pass === MAX_PASSES) break;
    // It may have moved to a folder that was looked at before it left: look at all of them once more.
    since = new Date();
    look = await syncFolders(ctx);
    todo = [...look.folders.values()].filter((folder) => look.dirty.has(folder.id));
    missing = look.missing;
  }
  if (anyMissing) await finishMissing(ctx, since);
  await inLease(ctx.db, ctx.lease, (tx) => touchSynced(tx, ctx.account.id, new Date()));
  return look;
}

/** Looks at the folders that the server told of, and at all when mail left them or they are not known. */
async function syncNotified(ctx: SyncContext, look: FolderListPass, heard: Set<string>): Promise<FolderListPass> {
  const folders = [...look.folders.values()].filter((folder) => heard.has(folder.path));
  const round = newPass(ctx, look, false);
  let all = folders.length < heard.size;
  for (const folder of inSyncOrder(folders)) {
    if (!(await syncFolder(ctx, folder, round))) all = true;
  }
  return all || round.missing ? syncMailbox(ctx, { pending: round.missing }) : look;
}

/** Selects INBOX, where IDLE listens, and takes in what came there meanwhile. */
async function selectInbox(ctx: SyncContext, look: FolderListPass): Promise<FolderListPass> {
  const inbox = [...look.folders.values()].find((folder) => folder.role === 'INBOX');
  const { mailbox } = ctx.session.client;
  if (!inbox || (mailbox && mailbox.path === inbox.path)) return look;
  const round = newPass(ctx, look, false);
  const opened = await syncFolder(ctx, inbox, round);
  return opened && round.missing ? selectInbox(ctx, await syncMailbox(ctx, { pending: true })) : look;
}

function newPass(ctx: SyncContext, look: FolderListPass, thorough: boolean): SyncPass {
  const round: SyncPass = {
    folders: look.folders,
    checked: new Set(),
    missing: false,
    thorough,
    async syncOthers(but) {
      const around = await syncFolders(ctx);
      round.missing ||= around.missing;
      for (const folder of inSyncOrder([...around.folders.values()])) {
        if (folder.id === but.id || !around.dirty.has(folder.id)) continue;
        // The round goes on with the folders it knows, so their cursors have to be those of now.
        const known = look.folders.get(folder.id);
        await syncFolder(ctx, known ? Object.assign(known, folder) : folder, round);
      }
    },
  };
  return round;
}

/**
 * INBOX first, for its events are waited for; Trash and Spam after the folders that mail leaves for them; All Mail last,
 * so that what it holds besides other folders is known from there, as a draft is from Drafts.
 */
function inSyncOrder(folders: FolderState[]): FolderState[] {
  const ranks: Partial<Record<string, number>> = { INBOX: 0, TRASH: 2, SPAM: 2, ALL: 3 };
  const rank = (folder: FolderState) => ranks[folder.role] ?? 1;
  return [...folders].sort((a, b) => rank(a) - rank(b));
}
