import { sleep } from '../async.ts';
import { listenForChanges } from '../imap/idle.ts';
import type { SyncContext } from './context.ts';
import { DoubtfulList } from './folders/list-pass.ts';
import { selectInbox, syncMailbox, syncNotified, withNewSession } from './sync-pass.ts';

/*
 * Reading order, from EXISTS to the commit of one new email:
 *   watch.ts          one connection: listens, polls, decides when to sync and what
 *   sync-pass.ts      one pass over folders; decides what became of emails that left a folder
 *   folder-pass.ts    one folder: SELECT, new messages, flags (vanished.ts: messages that left it)
 *   ingest/ingest.ts  new messages in batches, the next one fetched while one is saved
 *   ingest/fetch.ts   sources from the server into storage, parsed
 *   ingest/match.ts   new, moved, known from before, or sent by this API (sent-copies.ts): decided in the transaction
 *   ingest/threads.ts the thread of each new email
 *   ingest/rows.ts    its rows
 *   ingest/commit.ts  the one transaction: rows, locations, events, cursor
 */

export interface WatchOptions {
  /** interval between two passes over every folder, in milliseconds */
  pollMs: number;
  /** ends the watch without an error */
  signal: AbortSignal;
  /** called once the store is in sync with the mailbox */
  onInSync(): Promise<void>;
  /** calls back when another task needs a connection and the server allows no further one; returns how to stop */
  onRoomWanted?(wanted: () => void): () => void;
}

/** Until the next pass while it is not decided what became of emails that left a folder, in milliseconds. */
const UNDECIDED_MS = 2_000;

/** How long the connection is left to others that need it, in milliseconds. */
const ASIDE_MS = 1_000;

/** Interval at which all flags are compared where the server has no MODSEQ. */
const THOROUGH_MS = 5 * 60_000;

/**
 * Watches one mailbox until the signal: brings the store in sync, then listens on INBOX (IDLE) and, with NOTIFY, on
 * every folder, and syncs all folders every `pollMs`. The caller ends `ctx.session`; connections that the watch opens
 * itself it also ends.
 * @throws MailError when the connection or the server fails; LeaseLost when another holder took over
 */
export async function watch(ctx: SyncContext, options: WatchOptions): Promise<void> {
  let room = new AbortController();
  const stopListening = options.onRoomWanted?.(() => room.abort());
  let isReported = false;
  const onInSync = async () => {
    if (!isReported) await options.onInSync();
    isReported = true;
  };
  const onConnection = (own: SyncContext) => {
    room = new AbortController();
    return watchConnection(own, { ...options, onInSync, room: room.signal });
  };
  try {
    let ended = await onConnection(ctx);
    if (ended !== 'stopped') await ctx.session.end();
    while (ended !== 'stopped' && !options.signal.aborted) {
      if (ended === 'aside') await sleep(ASIDE_MS, options.signal);
      ended = await withNewSession(ctx, onConnection);
    }
  } catch (error) {
    if (!options.signal.aborted) throw error;
  } finally {
    stopListening?.();
  }
}

interface ConnectionOptions extends WatchOptions {
  /** aborted when another task needs the connection */
  room: AbortSignal;
}

/**
 * Watches on one connection. `doubtful`: its folder list has to be verified on a new connection; `aside`: another task
 * needs it for a moment.
 */
async function watchConnection(
  ctx: SyncContext,
  options: ConnectionOptions,
): Promise<'stopped' | 'doubtful' | 'aside'> {
  const { signal } = options;
  if (signal.aborted) return 'stopped';
  const close = () => ctx.session.client.close();
  signal.addEventListener('abort', close, { once: true });
  try {
    await listenAndSync(ctx, options);
    return signal.aborted ? 'stopped' : 'aside';
  } catch (error) {
    if (error instanceof DoubtfulList) return 'doubtful';
    throw error;
  } finally {
    signal.removeEventListener('abort', close);
  }
}

/** Until the signal, or until another task needs the connection. */
async function listenAndSync(ctx: SyncContext, { pollMs, signal, room, onInSync }: ConnectionOptions): Promise<void> {
  const over = AbortSignal.any([signal, room]);
  const listener = await listenForChanges(ctx.session);
  let list = await syncMailbox(ctx, { freshSession: true, thorough: true });
  await onInSync();
  let thoroughAt = performance.now();
  let polledAt = performance.now();
  while (!over.aborted) {
    list = await selectInbox(ctx, list);
    // Undecided emails shorten the wait.
    if (list.undecided) polledAt = Math.min(polledAt, performance.now() - pollMs + UNDECIDED_MS);
    await listener.wait(Math.max(1, polledAt + pollMs - performance.now()), over);
    if (over.aborted) return;
    ctx.session.assertOpen();
    const poll = performance.now() - polledAt >= pollMs;
    if (poll) await listener.probe();
    const notified = listener.take();
    const thorough = poll && performance.now() - thoroughAt >= THOROUGH_MS;
    const missingBefore = list.missing;
    if (poll || notified.list) list = await syncMailbox(ctx, { thorough, changed: notified.folders, missingBefore });
    else if (notified.folders.size > 0) list = await syncNotified(ctx, list, notified.folders);
    if (poll) polledAt = performance.now();
    if (thorough) thoroughAt = performance.now();
  }
}
