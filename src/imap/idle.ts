import { decodePath } from 'imapflow/lib/tools.js';
import type { VanishedEvent } from './imapflow-patches.ts';
import type { ImapSession } from './session.ts';

/** What a server told unasked since it was asked last. */
export interface MailboxNotifications {
  /** paths of folders in which something happened */
  folders: Set<string>;
  /** folders were created, renamed or deleted */
  list: boolean;
}

/** Hears what the server tells unasked, in the selected folder and, with NOTIFY (RFC 5465), in all of them. */
export interface ChangeListener {
  /** waits for news, at most `ms`; IDLE is on meanwhile where the server has it */
  wait(ms: number, signal: AbortSignal): Promise<void>;
  /** the news so far; they are taken, and gather anew */
  take(): MailboxNotifications;
  /** NOTIFY is on: news of every folder come by themselves */
  readonly hearsAll: boolean;
}

/** Without IDLE the selected folder is asked this often, in milliseconds. */
const NOOP_INTERVAL_MS = 5_000;

type Untagged = { attributes?: { value?: unknown }[] };

/** Starts to listen on a session. */
export async function listenForChanges(session: ImapSession): Promise<ChangeListener> {
  const { client } = session;
  let news: MailboxNotifications = { folders: new Set(), list: false };
  let wake = () => {};
  const hear = (change: (news: MailboxNotifications) => void) => {
    change(news);
    wake();
  };
  const inSelected = ({ path }: { path: string }) => hear((n) => n.folders.add(path));
  client.on('exists', inSelected);
  client.on('expunge', inSelected);
  (client as NodeJS.EventEmitter).on('vanished', (event: VanishedEvent) => {
    if (!event.earlier) inSelected(event);
  });
  client.on('flags', inSelected);
  client.on('close', () => wake());

  const hearsAll = await notifyAll(session);
  if (hearsAll) {
    // Untold STATUS and LIST come while idling, where imapflow has no listener of its own for them.
    const handlers = client as unknown as { untaggedHandlers: Record<string, (untagged: Untagged) => Promise<void>> };
    handlers.untaggedHandlers.STATUS = async ({ attributes }) => {
      const raw = attributes?.[0]?.value;
      const path = typeof raw === 'string' || Buffer.isBuffer(raw) ? decodePath(client, raw.toString()) : undefined;
      hear((n) => (path ? n.folders.add(path) : (n.list = true)));
    };
    handlers.untaggedHandlers.LIST = async () => hear((n) => (n.list = true));
  }

  let idleRefused = false;
  return {
    hearsAll,
    take() {
      const taken = news;
      news = { folders: new Set(), list: false };
      return taken;
    },
    async wait(ms, signal) {
      if (news.folders.size > 0 || news.list || signal.aborted) return;
      const woken = new Promise<void>((resolve) => {
        wake = resolve;
      });
      const idling = session.has('IDLE') && !idleRefused;
      const timer = delay(idling ? ms : Math.min(ms, NOOP_INTERVAL_MS), signal);
      try {
        if (idling) {
          const began = Date.now();
          const ended = client.idle().then(
            (result) => {
              // Refused: fall back to NOOP, so that a server that answers NO is not asked again and again.
              if (result === false && client.usable && Date.now() - began < 1_000) idleRefused = true;
              return pause(1_000);
            },
            () => {},
          );
          await Promise.race([woken, timer.done, ended]);
        } else {
          await Promise.race([woken, timer.done]);
          if (!signal.aborted) await session.run('NOOP', () => client.noop());
        }
      } finally {
        wake = () => {};
        timer.cancel();
      }
    },
  };
}

/** Asks for news of all folders; false where the server has no NOTIFY or refuses it. */
async function notifyAll(session: ImapSession): Promise<boolean> {
  if (!session.has('NOTIFY')) return false;
  const atom = (value: string) => ({ type: 'ATOM', value });
  // NOTIFY is a command that imapflow does not know; exec() sends any command, but is not in its public types.
  const client = session.client as unknown as { exec(command: string, args: unknown[]): Promise<{ next(): void }> };
  const messages = ['MessageNew', 'MessageExpunge', 'FlagChange'].map(atom);
  try {
    const response = await session.run('NOTIFY', () =>
      client.exec('NOTIFY', [
        atom('SET'),
        [atom('selected'), messages],
        [atom('personal'), [...messages, atom('MailboxName'), atom('SubscriptionChange')]],
      ]),
    );
    response.next();
    return true;
  } catch {
    if (!session.client.usable) throw new Error('the connection ended during NOTIFY');
    return false;
  }
}

/** An IDLE that ends at once must not make the watch spin. */
function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms).unref());
}

function delay(ms: number, signal: AbortSignal): { done: Promise<void>; cancel(): void } {
  let finish = () => {};
  const done = new Promise<void>((resolve) => {
    finish = resolve;
  });
  const timer = setTimeout(finish, ms);
  signal.addEventListener('abort', finish, { once: true });
  return {
    done,
    cancel() {
      clearTimeout(timer);
      signal.removeEventListener('abort', finish);
    },
  };
}
