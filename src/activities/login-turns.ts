import { sleep } from '../async.ts';
import { holdLogins, takeLogin } from '../db/coordination/login-budget.ts';
import type { Db } from '../db/driver/client.ts';
import { asksForPatience, suggestedPause } from '../imap/response-codes.ts';
import type { Logger } from '../runtime/logger.ts';

/** How long logins are paused at a provider that asked for fewer of them. */
const HOLD_MS = 30_000;

interface Deps {
  db: Db;
  logger: Logger;
  sync: { loginsPerMinute: number };
}

/** Waits for a login in the provider's budget, so the mailboxes of a provider reconnect one after the other. */
export async function awaitLogin({ db, sync }: Deps, host: string, signal: AbortSignal): Promise<void> {
  await sleep(await takeLogin(db, host, sync.loginsPerMinute), signal);
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

/**
 * Obeys a server that asks for fewer logins. When it throttles this mailbox and says for how long, `onPause` is called, and the
 * promise resolves after that time; else all logins to the host pause.
 */
export async function obeyRefusal(
  { db, logger }: Deps,
  refused: { host: string; error: unknown; onPause: () => Promise<void> },
  signal: AbortSignal,
): Promise<void> {
  const { host, error, onPause } = refused;
  if (!asksForPatience(error)) return;
  if (suggestedPause(error) === undefined) {
    await holdLogins(db, host, HOLD_MS).catch((err: unknown) => {
      logger.warn({ err }, 'could not pause logins to this host');
    });
    return;
  }
  await onPause();
  await obeyPause(error, signal);
}
