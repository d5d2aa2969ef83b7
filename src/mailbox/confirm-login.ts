import { setTimeout as sleep } from 'node:timers/promises';
import type { Db } from '../db/driver/client.ts';
import { MailError, type MailSide } from '../mail-wire/mail-error.ts';
import { loadSyncSettings } from './settings.ts';

/** What confirming a refused login needs. */
export interface LoginDeps {
  db: Db;
  /** makes the account `disconnected`, with what the provider said */
  markDisconnected(accountId: string, detail: string): Promise<void>;
}

/** Before the second attempt of a refused login: some servers refuse while they are busy. */
const SECOND_ATTEMPT_MS = 500;

/**
 * Attempts what needs a login, and again on a new connection when the login was refused. A second refusal makes the
 * account `disconnected`.
 */
export async function withLoginConfirmed<T>(
  deps: LoginDeps,
  accountId: string,
  side: MailSide,
  login: {
    attempt(): Promise<T>;
    /** ends the pooled connections */
    drop(): void | Promise<void>;
    /** the sealed credentials that the second attempt uses */
    tried(): Promise<Buffer>;
  },
): Promise<T> {
  const isRefused = (error: unknown): error is MailError =>
    error instanceof MailError && error.code === 'invalid_credentials' && error.side === side;
  try {
    return await login.attempt();
  } catch (error) {
    if (!isRefused(error)) throw error;
  }
  await login.drop();
  await sleep(SECOND_ATTEMPT_MS);
  const tried = await login.tried();
  try {
    return await login.attempt();
  } catch (error) {
    if (isRefused(error)) await refusedLogin(deps, accountId, error, tried);
    throw error;
  }
}

/**
 * Records that a login was refused for the second time: the account is `disconnected`, and its workflow ends the watch.
 * `tried` are the sealed credentials that were refused: if others are stored by now, the account was connected again.
 */
async function refusedLogin(deps: LoginDeps, accountId: string, error: MailError, tried: Buffer): Promise<void> {
  const settings = await loadSyncSettings(deps.db, accountId);
  if (settings?.credentials.equals(tried)) await deps.markDisconnected(accountId, error.detail);
}
