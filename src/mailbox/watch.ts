import { listenForChanges } from '../imap/idle.ts';
import { MailError } from '../mail-error.ts';
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
 *   ingest/match.ts   new, moved, known from before, or sent by this API: decided once, in the transaction
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
}

/** Interval at which all flags are compared where the server has no MODSEQ. */
const THOROUGH_MS = 5 * 60_000;

/**
 * Watches one mailbox until the signal: brings the store in sync, then listens on INBOX (IDLE) and, with NOTIFY, on
 * every folder, and syncs all folders every `pollMs`. The caller ends `ctx.session`; connections that the watch opens
 * itself it also ends.
 * @throws MailError when the connection or the server fails; LeaseLost when another holder took over
 */
export async function watch(ctx: SyncContext, options: WatchOptions): Promise<void> {
  try {
    let ended = await watchConnection(ctx, options);
    if (ended === 'doubtful') await ctx.session.end();
    while (ended === 'doubtful' && !options.signal.aborted) {
      ended = await withNewSession(ctx, (renewed) => watchConnection(renewed, options));
    }
  } catch (error) {
    if (!options.signal.aborted) throw error;
  }
}

/** Watches on one connection. `doubtful`: its folder list has to be verified on a new connection. */
async function watchConnection(ctx: SyncContext, options: WatchOptions): Promise<'stopped' | 'doubtful'> {
  const { signal } = options;
  if (signal.aborted) return 'stopped';
  const close = () => ctx.session.client.close();
  signal.addEventListener('abort', close, { once: true });
  try {
    await listenAndSync(ctx, options);
    return 'stopped';
  } catch (error) {
    if (error instanceof DoubtfulList) return 'doubtful';
    throw error;
  } finally {
    signal.removeEventListener('abort', close);
  }
}

async function listenAndSync(ctx: SyncContext, { pollMs, signal, onInSync }: WatchOptions): Promise<void> {
  const listener = await listenForChanges(ctx.session);
  let list = await syncMailbox(ctx, { freshSession: true, thorough: true });
  await onInSync();
  let thoroughAt = Date.now();
  let polledAt = Date.now();
  while (!signal.aborted) {
    list = await selectInbox(ctx, list);
    await listener.wait(Math.max(1, polledAt + pollMs - Date.now()), signal);
    if (signal.aborted) return;
    if (!ctx.session.client.usable) throw new MailError('provider_error', 'imap', 'the connection was closed');
    const notified = listener.take();
    const poll = Date.now() - polledAt >= pollMs;
    const thorough = poll && Date.now() - thoroughAt >= THOROUGH_MS;
    if (poll || notified.list) list = await syncMailbox(ctx, { thorough, changed: notified.folders });
    else if (notified.folders.size > 0) list = await syncNotified(ctx, list, notified.folders);
    if (poll) polledAt = Date.now();
    if (thorough) thoroughAt = Date.now();
  }
}
