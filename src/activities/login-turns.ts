import { sleep, unlessAborted } from '../async.ts';
import { holdLogins, takeLogin } from '../db/coordination/login-budget.ts';
import type { Db } from '../db/driver/client.ts';
import { asksForPatience, suggestedPause } from '../imap/response-codes.ts';
import type { Logger } from '../runtime/logger.ts';

/** How long logins are paused at a provider that asked for fewer of them. */
const HOLD_MS = 30_000;

interface Deps {
  db: Db;
  logger: Logger;
  /** at one host, over all workers */
  perMinute: number;
}

/** The logins of this process, which the budget of each host spreads over time. */
export interface LoginTurns {
  /** Waits until a login is due, or the signal aborts. */
  wait(host: string, signal: AbortSignal): Promise<void>;
  /**
   * Obeys a server that asks for fewer logins. When it throttles this mailbox and says for how long, `onPause` is called, and the
   * promise resolves after that time; else all logins to the host pause, and follow one another more slowly.
   */
  obeyRefusal(
    refused: { host: string; error: unknown; onPause: () => Promise<void> },
    signal: AbortSignal,
  ): Promise<void>;
}

export function createLoginTurns({ db, logger, perMinute }: Deps): LoginTurns {
  /** The last one in each host's line. Only the first has a time, so that a pause holds up all others. */
  const lines = new Map<string, Promise<void>>();
  return {
    async wait(host, signal) {
      const before = lines.get(host) ?? Promise.resolve();
      const turn = before.then(async () => {
        if (!signal.aborted) await sleep(await takeLogin(db, host, perMinute), signal);
      });
      const over = turn.catch(() => {}).then(() => void (lines.get(host) === over && lines.delete(host)));
      lines.set(host, over);
      await unlessAborted(turn, signal);
    },
    async obeyRefusal({ host, error, onPause }, signal) {
      if (!asksForPatience(error)) return;
      if (suggestedPause(error) === undefined) {
        await holdLogins(db, host, HOLD_MS).catch((err: unknown) => {
          logger.warn({ err }, 'could not pause logins to this host');
        });
        return;
      }
      await onPause();
      await obeyPause(error, signal);
    },
  };
}

/** Errors whose pause was obeyed: one passes several places on its way up. */
const obeyed = new WeakSet<object>();

/** Waits as long as the server asks when it throttles this mailbox. Returns whether it does. */
export async function obeyPause(error: unknown, signal: AbortSignal): Promise<boolean> {
  const pauseMs = suggestedPause(error);
  if (pauseMs === undefined) return false;
  if (!obeyed.has(error as object)) {
    obeyed.add(error as object);
    await sleep(pauseMs, signal);
  }
  return true;
}
