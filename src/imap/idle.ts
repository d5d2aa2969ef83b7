import { decodePath } from 'imapflow/lib/tools.js';
import { sleep } from '../async.ts';
import { atom, command } from './command.ts';
import { internalsOf, type VanishedEvent } from './imapflow-patches.ts';
import type { ImapSession } from './session.ts';

/** Unsolicited reports of a server since the last `take`. */
export interface MailboxNotifications {
  /** paths of folders that changed */
  folders: Set<string>;
  /** folders were created, renamed or deleted */
  list: boolean;
}

/** Listens for changes in the selected folder and, with NOTIFY (RFC 5465), in all folders. */
export interface ChangeListener {
  /** waits for a notification, at most `ms` milliseconds; in IDLE where the server supports it */
  wait(ms: number, signal: AbortSignal): Promise<void>;
  /**
   * Asks the server by NOOP for changes that it did not notify of. If it then reports one, its IDLE is no longer relied on:
   * a NOOP interrupts it every few seconds.
   */
  probe(): Promise<void>;
  /** returns the notifications so far and clears them */
  take(): MailboxNotifications;
}

/** Without IDLE the selected folder is checked this often, in milliseconds. */
const NOOP_INTERVAL_MS = 5_000;
/** An IDLE that ended sooner was refused; the next one starts no sooner, in milliseconds. */
const SHORTEST_IDLE_MS = 1_000;

/** Starts to listen on a session. */
export async function listenForChanges(session: ImapSession): Promise<ChangeListener> {
  const { client } = session;
  let notifications: MailboxNotifications = { folders: new Set(), list: false };
  let wake = () => {};
  const notify: Notify = (change) => {
    change(notifications);
    wake();
  };
  listenToSelected(session, notify);
  client.on('close', () => wake());
  if (await notifyAll(session)) listenToAllFolders(session, notify);

  let idleRefused = false;
  let isReliable = true;
  const idle = async (signal: AbortSignal) => {
    const began = performance.now();
    const result = await client.idle();
    const isShort = performance.now() - began < SHORTEST_IDLE_MS;
    // Fall back to NOOP: a server that answers NO must not be asked repeatedly.
    if (result === false && client.usable && isShort) idleRefused = true;
    // An IDLE that ends immediately must not make the watch spin.
    await sleep(SHORTEST_IDLE_MS, signal);
  };
  return {
    take() {
      const taken = notifications;
      notifications = { folders: new Set(), list: false };
      return taken;
    },
    async probe() {
      if (!session.has('IDLE') || idleRefused || notifications.folders.size > 0) return;
      await session.run('NOOP', () => client.noop());
      if (notifications.folders.size > 0) isReliable = false;
    },
    async wait(ms, signal) {
      if (notifications.folders.size > 0 || notifications.list || signal.aborted) return;
      const woken = new Promise<void>((resolve) => {
        wake = resolve;
      });
      const over = new AbortController();
      const abort = () => over.abort();
      signal.addEventListener('abort', abort, { once: true });
      try {
        // IDLE listens in the selected folder: a server may not open any
        if (session.has('IDLE') && !idleRefused && client.mailbox) {
          const idleMs = isReliable ? ms : Math.min(ms, NOOP_INTERVAL_MS);
          await Promise.race([woken, sleep(idleMs, over.signal), idle(over.signal).catch(() => {})]);
          if (!isReliable && !over.signal.aborted) await session.run('NOOP', () => client.noop());
        } else {
          await Promise.race([woken, sleep(Math.min(ms, NOOP_INTERVAL_MS), over.signal)]);
          if (!signal.aborted) await session.run('NOOP', () => client.noop());
        }
      } finally {
        wake = () => {};
        signal.removeEventListener('abort', abort);
        over.abort();
      }
    },
  };
}

/** Requests notifications of all folders; false where the server lacks NOTIFY or refuses it. */
async function notifyAll(session: ImapSession): Promise<boolean> {
  if (!session.has('NOTIFY')) return false;
  const messages = ['MessageNew', 'MessageExpunge', 'FlagChange'].map(atom);
  try {
    await command(session, 'NOTIFY', [
      atom('SET'),
      [atom('selected'), messages],
      [atom('personal'), [...messages, atom('MailboxName'), atom('SubscriptionChange')]],
    ]);
    return true;
  } catch {
    if (!session.client.usable) throw new Error('the connection ended during NOTIFY');
    return false;
  }
}

type Notify = (change: (notifications: MailboxNotifications) => void) => void;

function listenToSelected({ client }: ImapSession, notify: Notify): void {
  const inSelected = ({ path }: { path: string }) => notify(({ folders }) => folders.add(path));
  client.on('exists', inSelected);
  client.on('expunge', inSelected);
  (client as NodeJS.EventEmitter).on('vanished', (event: VanishedEvent) => {
    if (!event.earlier) inSelected(event);
  });
  client.on('flags', inSelected);
}

/** STATUS and LIST arrive while idling, where imapflow does not listen for them. */
function listenToAllFolders({ client }: ImapSession, notify: Notify): void {
  const { untaggedHandlers } = internalsOf(client);
  untaggedHandlers.STATUS = async ({ attributes }) => {
    const raw = (attributes?.[0] as { value?: unknown } | undefined)?.value;
    const path = typeof raw === 'string' || Buffer.isBuffer(raw) ? decodePath(client, raw.toString()) : undefined;
    notify((notifications) => (path ? notifications.folders.add(path) : (notifications.list = true)));
  };
  untaggedHandlers.LIST = async () => notify((notifications) => (notifications.list = true));
}
