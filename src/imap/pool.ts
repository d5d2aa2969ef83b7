import { MailError } from '../mail-error.ts';
import type { Outbound } from '../outbound.ts';
import { AccountSessions } from './account-sessions.ts';
import { type ImapSession, openSession } from './session.ts';
import type { ServerLogin } from '../contract/account.ts';

/** Logged-in sessions that are kept for a while, so that a change of one flag does not pay a login. */
export interface SessionPool {
  /**
   * Runs `work` with a session that nobody else uses meanwhile; which folder is selected in it is not known. `work` is
   * never run twice: a session that was idle for long is tried out first.
   * @throws what `work` throws; MailError invalid_credentials or provider_error when no session is to be had
   */
  use<T>(accountId: string, imap: ServerLogin, work: (session: ImapSession) => Promise<T>): Promise<T>;
  /** Ends the sessions of an account: the idle ones at once, those in use as soon as they are free. */
  drop(accountId: string): Promise<void>;
  /** The same for all accounts, for good. */
  close(): Promise<void>;
}

export interface SessionPoolOptions {
  outbound: Outbound;
  /** sessions of one account at a time, default 3: providers allow 10 to 15, other programs of the user included */
  maxPerAccount?: number;
  /** milliseconds after which a session that is not used is ended, default 60 s */
  idleMs?: number;
  /** milliseconds that a caller waits for a session to become free, default 30 s */
  waitMs?: number;
  /** milliseconds of idling after which a session is tried out before it is used, default 5 s */
  probeAfterMs?: number;
}

/** A pool that opens sessions on demand; one per process. */
export function createSessionPool(options: SessionPoolOptions): SessionPool {
  const { outbound, maxPerAccount = 3, idleMs = 60_000, waitMs = 30_000, probeAfterMs = 5_000 } = options;
  const limits = { max: maxPerAccount, idleMs, waitMs, probeAfterMs };
  const accounts = new Map<string, AccountSessions>();
  let closed = false;

  function sessionsOf(accountId: string): AccountSessions {
    const known = accounts.get(accountId);
    if (known) return known;
    const made: AccountSessions = new AccountSessions(limits, {
      open: (imap) => openSession(imap, { outbound, idleMs }),
      onEmpty: () => accounts.get(accountId) === made && accounts.delete(accountId),
    });
    accounts.set(accountId, made);
    return made;
  }

  async function drop(accountId: string): Promise<void> {
    const sessions = accounts.get(accountId);
    accounts.delete(accountId);
    await sessions?.drop();
  }

  return {
    async use(accountId, imap, work) {
      if (closed) throw new MailError('provider_error', 'imap', 'the service is shutting down');
      const sessions = sessionsOf(accountId);
      const kept = await sessions.take(imap);
      let clean = false;
      try {
        const answer = await work(kept.session);
        clean = true;
        return answer;
      } catch (error) {
        // After a plain refusal both sides know where they are.
        clean = error instanceof MailError && error.refused;
        throw error;
      } finally {
        sessions.giveBack(kept, clean);
      }
    },
    drop,
    async close() {
      closed = true;
      await Promise.all([...accounts.keys()].map(drop));
    },
  };
}
