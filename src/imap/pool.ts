import { createConnectionPool } from '../mail-wire/connection-pool.ts';
import type { ServerLogin } from '../contract/account.ts';
import { MailError } from '../mail-wire/mail-error.ts';
import type { Outbound } from '../security/outbound.ts';
import { isCut, refusedAsLimit } from './response-codes.ts';
import { type ImapSession, openSession } from './session.ts';

/** Keeps logged-in sessions open for a while: changing one flag must not cost a login. */
export interface SessionPool {
  /**
   * Runs `work` with exclusive use of a session, in which any folder may be selected. `work` never runs twice: a session
   * that was idle for long is probed first.
   * @throws errors of `work`; MailError invalid_credentials or provider_error when no session can be opened
   */
  use<T>(accountId: string, login: ServerLogin, work: (session: ImapSession) => Promise<T>): Promise<T>;
  /** Closes the sessions of an account: idle ones immediately, those in use when they are released. */
  drop(accountId: string): Promise<void>;
  /** Closes the idle sessions of an account, for another client that the server refuses a connection. */
  dropIdle(accountId: string): Promise<void>;
  /** Closes all sessions; the pool cannot be used afterwards. */
  close(): Promise<void>;
}

export interface SessionPoolOptions {
  outbound: Outbound;
  /** sessions of one account at a time, default 3: providers allow 10 to 15, other programs of the user included */
  maxPerAccount?: number;
  /** milliseconds after which an unused session is closed, default 60 s */
  idleMs?: number;
  /** milliseconds that a caller waits for a session to become free, default 30 s */
  waitMs?: number;
  /** idle milliseconds after which a session is probed before its next use, default 5 s */
  probeAfterMs?: number;
  /** asks other users of the mailbox, in all processes, to close connections that they can spare */
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
        // counted without waiting: a caller waits for the response
        void onLogin?.(login.host);
        const session = await openSession(login, { outbound, idleMs });
        session.exclusive = exclusive;
        return session;
      },
      meaningOf: (failure) => (refusedAsLimit(failure) ? 'limit' : isCut(failure) ? 'cut' : 'own'),
      // A server may keep the connection open for a while after its BYE.
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
        // After a plain refusal the state of the connection is known.
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
