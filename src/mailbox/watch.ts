import { inLease } from '../db/lease.ts';
import { listen } from '../imap/idle.ts';
import { MailError } from '../mail-error.ts';
import { isScanned } from './baseline.ts';
import type { SyncContext } from './context.ts';
import { finishMissing, type Round, syncFolder } from './folder-pass.ts';
import { DoubtfulList, type FolderLook, syncFolders } from './folders/list-pass.ts';
import { type FolderState, loadFolders } from './store/folders.ts';
import { touchSynced } from './store/settings.ts';

export interface WatchOptions {
  /** how often every folder is looked at, in milliseconds */
  pollMs: number;
  /** ends the watch in good order */
  signal: AbortSignal;
  /** called once the mailbox has been brought up to date */
  onInStep(): Promise<void>;
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

async function watchOpen(ctx: SyncContext, { pollMs, signal, onInStep }: WatchOptions): Promise<void> {
  const listener = await listen(ctx.session);
  let look = await lookAtAll(ctx, { thorough: true });
  await onInStep();
  let thoroughAt = Date.now();
  let polledAt = Date.now();
  while (!signal.aborted) {
    look = await standInInbox(ctx, look);
    await listener.wait(Math.max(1, polledAt + pollMs - Date.now()), signal);
    if (signal.aborted) return;
    if (!ctx.session.client.usable) throw new MailError('provider_error', 'imap', 'the connection was closed');
    const news = listener.take();
    const poll = Date.now() - polledAt >= pollMs;
    const thorough = poll && Date.now() - thoroughAt >= THOROUGH_MS;
    if (poll || news.list) look = await lookAtAll(ctx, { thorough, heard: news.folders });
    else if (news.folders.size > 0) look = await lookAtHeard(ctx, look, news.folders);
    if (poll) polledAt = Date.now();
    if (thorough) thoroughAt = Date.now();
  }
}

/**
 * Looks at the whole mailbox once, beside whoever watches it: the store knows then where all mail lies, and what was
 * deleted. The folders `heard` (paths) are looked at whatever their counters say.
 */
export async function lookOnce(ctx: SyncContext, heard: Set<string>): Promise<void> {
  const scanned = isScanned(await loadFolders(ctx.db, ctx.account.id));
  const own = { ...ctx, baselineKnown: () => scanned };
  try {
    await lookAtAll(own, { heard, pending: true });
  } catch (error) {
    if (!(error instanceof DoubtfulList)) throw error;
    own.session = await ctx.reopen();
    own.freshSession = true;
    try {
      await lookAtAll(own, { heard, pending: true });
    } finally {
      await own.session.end();
    }
  }
}

/** Looks at the folder list and at every folder in which something changed; decides what became of missing mail. */
async function lookAtAll(
  ctx: SyncContext,
  {
    thorough = false,
    heard = new Set<string>(),
    pending = false,
  }: { thorough?: boolean; heard?: Set<string>; pending?: boolean },
): Promise<FolderLook> {
  const everyFlag = thorough && !ctx.session.condstore;
  let since = new Date();
  let look = await syncFolders(ctx);
  let todo = [...look.folders.values()].filter(
    (folder) => look.dirty.has(folder.id) || heard.has(folder.path) || (everyFlag && folder.selectable),
  );
  let missing = look.missing;
  let anyMissing = thorough || pending || missing;
  for (let pass = 1; ; pass++) {
    const round = newRound(ctx, look, everyFlag);
    for (const folder of inOrder(todo)) await syncFolder(ctx, folder, round);
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
async function lookAtHeard(ctx: SyncContext, look: FolderLook, heard: Set<string>): Promise<FolderLook> {
  const folders = [...look.folders.values()].filter((folder) => heard.has(folder.path));
  const round = newRound(ctx, look, false);
  let all = folders.length < heard.size;
  for (const folder of inOrder(folders)) {
    if (!(await syncFolder(ctx, folder, round))) all = true;
  }
  return all || round.missing ? lookAtAll(ctx, { pending: round.missing }) : look;
}

/** Selects INBOX, where IDLE listens, and takes in what came there meanwhile. */
async function standInInbox(ctx: SyncContext, look: FolderLook): Promise<FolderLook> {
  const inbox = [...look.folders.values()].find((folder) => folder.role === 'INBOX');
  const { mailbox } = ctx.session.client;
  if (!inbox || (mailbox && mailbox.path === inbox.path)) return look;
  const round = newRound(ctx, look, false);
  const opened = await syncFolder(ctx, inbox, round);
  return opened && round.missing ? standInInbox(ctx, await lookAtAll(ctx, { pending: true })) : look;
}

function newRound(ctx: SyncContext, look: FolderLook, thorough: boolean): Round {
  const round: Round = {
    folders: look.folders,
    checked: new Set(),
    missing: false,
    thorough,
    async lookAround(but) {
      const around = await syncFolders(ctx);
      round.missing ||= around.missing;
      for (const folder of inOrder([...around.folders.values()])) {
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
function inOrder(folders: FolderState[]): FolderState[] {
  const ranks: Partial<Record<string, number>> = { INBOX: 0, TRASH: 2, SPAM: 2, ALL: 3 };
  const rank = (folder: FolderState) => ranks[folder.role] ?? 1;
  return [...folders].sort((a, b) => rank(a) - rank(b));
}
