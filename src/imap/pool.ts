import { createConnectionPool } from '../mail-wire/connection-pool.ts';
import type { ServerLogin } from '../contract/account.ts';
import { MailError } from '../mail-wire/mail-error.ts';
import type { Outbound } from '../security/outbound.ts';
import { isCut, refusedAsLimit } from './response-codes.ts';
import { type ImapSession, openSession } from './session.ts';

/** Logged-in sessions that stay open for a while, so that changing one flag does not pay a login. */
export interface SessionPool {
  /**
   * Runs `work` with a session that nobody else uses meanwhile; any folder may be selected in it. `work` never runs
   * twice: a session that was idle for long is probed first.
   * @throws what `work` throws; MailError invalid_credentials or provider_error when no session can be had
   */
  use<T>(accountId: string, login: ServerLogin, work: (session: ImapSession) => Promise<T>): Promise<T>;
  /** Ends the sessions of an account: the idle ones at once, those in use when they become free. */
  drop(accountId: string): Promise<void>;
  /** Ends the idle sessions of an account, for somebody who gets no connection. */
  dropIdle(accountId: string): Promise<void>;
  /** Ends all sessions for good. */
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
  /** milliseconds of idling after which a session is probed before it is used, default 5 s */
  probeAfterMs?: number;
  /** asks others, in whatever process, to end connections to the mailbox that can be ended */
  makeRoom?(accountId: string): Promise<void>;
  /** called before each login at a host; must not throw */
  onLogin?(host: string): void;
}

const PROBE_TIMEOUT_MS = 5_000;

/** A pool that opens sessions on demand; one per process. */
export function createSessionPool(options: SessionPoolOptions): SessionPool {
  const {
    outbound,
    maxPerAccount = 3,
    idleMs = 60_000,
    waitMs = 30_000,
    probeAfterMs = 5_000,
    makeRoom,
    onLogin,
  } = options;
  const pool = createConnectionPool<ImapSession>(
    {
      side: 'imap',
      async open(login, exclusive) {
        // counted, and not waited for: somebody waits for the answer
        void onLogin?.(login.host);
        const session = await openSession(login, { outbound, idleMs });
        session.exclusive = exclusive;
        return session;
      },
      meaningOf: (failure) => (refusedAsLimit(failure) ? 'limit' : isCut(failure) ? 'cut' : 'own'),
      // A server that has said BYE may take a while to hang up.
      isReusable: ({ client }) => client.usable && client.state !== client.states.LOGOUT,
      probe: (session) =>
        session
          .run('NOOP', () => session.client.noop(), { deadlineMs: PROBE_TIMEOUT_MS })
          .then(
            () => true,
            () => false,
          ),
      onEnd: ({ client }, listener) => void client.once('close', listener),
      end: (session) => session.end(),
      destroy: ({ client }) => client.close(),
    },
    { maxPerAccount, idleMs, waitMs, probeAfterMs, ...(makeRoom ? { makeRoom } : {}) },
  );
  return {
    async use(accountId, login, work) {
      const lease = await pool.take(accountId, login);
      let inDoubt = true;
      try {
        const result = await work(lease.connection);
        inDoubt = false;
        return result;
      } catch (error) {
        // After a plain refusal both sides know where they are.
        inDoubt = !(error instanceof MailError && error.refused);
        throw error;
      } finally {
        lease.giveBack({ inDoubt });
      }
    },
    drop: (accountId) => pool.drop(accountId),
    dropIdle: (accountId) => pool.dropIdle(accountId),
    close: () => pool.close(),
  };
}
