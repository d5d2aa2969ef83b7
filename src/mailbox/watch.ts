import { sleep } from '../async.ts';
import { listenForChanges } from '../imap/idle.ts';
import type { ImapSession } from '../imap/session.ts';
import { MailError } from '../mail-wire/mail-error.ts';
import type { SyncContext } from './context.ts';
import { DoubtfulList } from './folders/list-pass.ts';
import { createTokenEnds } from './logins.ts';
import { selectInbox, syncMailbox, syncNotified } from './sync-pass.ts';

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

/** Interval at which all flags are compared of folders without MODSEQ. */
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
  const isTokenEnd = createTokenEnds();
  const onInSync = async () => {
    if (!isReported) await options.onInSync();
    isReported = true;
  };
  const onConnection = async (session: ImapSession) => {
    room = new AbortController();
    const successor = prepareSuccessor(ctx, session, options.signal);
    const own = { ...ctx, session };
    try {
      const ended = await watchConnection(own, {
        ...options,
        onInSync,
        room: AbortSignal.any([room.signal, successor.ready]),
      });
      // the server may allow no second one
      if (ended !== 'stopped') await session.end();
      return { ended, next: await successor.take() };
    } catch (error) {
      if (!isTokenEnd(session.token, error)) throw error;
      return { ended: 'cut' as const, next: await successor.take() };
    } finally {
      await successor.discard();
    }
  };
  let session: ImapSession | undefined = ctx.session;
  try {
    while (!options.signal.aborted) {
      session ??= await ctx.reopen();
      const { ended, next } = await onConnection(session);
      if (ended === 'stopped') break;
      session = next;
      if (ended === 'aside' && !next) await sleep(ASIDE_MS, options.signal);
    }
  } catch (error) {
    if (!options.signal.aborted) throw error;
  } finally {
    stopListening?.();
    if (session !== ctx.session) await session?.end();
  }
}

/** Between two attempts to open the next connection, in milliseconds. */
const SUCCESSOR_MS = 5_000;

/**
 * Opens the next connection when the token of this one is due to be replaced: providers end a session with its token. `ready`
 * aborts once it is open or refused; `take` returns it, or undefined, and ends the attempts. `take` throws what refused it.
 */
function prepareSuccessor(ctx: SyncContext, { token }: ImapSession, signal: AbortSignal) {
  const ready = new AbortController();
  const over = new AbortController();
  const until = AbortSignal.any([signal, over.signal]);
  let next: ImapSession | undefined;
  async function open(renewAt: Date): Promise<void> {
    await sleepUntil(renewAt, until);
    while (!until.aborted && !next) {
      next = await ctx.reopen().catch((error: unknown) => {
        if (error instanceof MailError && error.code === 'invalid_credentials') throw error;
        // left to the watch, if the connection is cut before the next attempt
        return undefined;
      });
      if (!next) await sleep(SUCCESSOR_MS, until);
    }
  }
  const opening = token?.renewAt ? open(token.renewAt).finally(() => ready.abort()) : undefined;
  opening?.catch(() => {});
  const take = async () => {
    over.abort();
    await opening;
    const taken = next;
    next = undefined;
    return taken;
  };
  return { ready: ready.signal, take, discard: async () => (await take().catch(() => undefined))?.end() };
}

/** Timers are not longer than 24.8 days. */
const LONGEST_MS = 2 ** 31 - 1;

async function sleepUntil(at: Date, signal: AbortSignal): Promise<void> {
  while (Date.now() < at.getTime() && !signal.aborted)
    await sleep(Math.min(at.getTime() - Date.now(), LONGEST_MS), signal);
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
