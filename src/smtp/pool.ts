import { type ConnectionPool, createConnectionPool } from '../mail-wire/connection-pool.ts';
import type { ServerLogin } from '../contract/account.ts';
import { MailError } from '../mail-wire/mail-error.ts';
import type { SmtpSession } from './session.ts';

/** The SMTP connections of all accounts: one message after another pays one login. */
export type SmtpPool = ConnectionPool<SmtpSession>;

export interface SmtpPoolOptions {
  open(login: ServerLogin): Promise<SmtpSession>;
  maxPerAccount: number;
  /** milliseconds after which an unused connection is closed */
  idleMs: number;
  /** messages that one connection may carry */
  maxMessages: number;
  /** milliseconds to wait for a connection that is in use */
  waitMs: number;
}

/** A pool without connections. */
export function createSmtpPool({ open, maxMessages, ...limits }: SmtpPoolOptions): SmtpPool {
  return createConnectionPool<SmtpSession>(
    {
      side: 'smtp',
      open,
      // Some servers lock an account after a few refused logins.
      meaningOf: (failure) =>
        failure instanceof MailError && failure.code === 'invalid_credentials' ? 'all' : 'limit',
      isReusable: (session) => session.usable && session.messages < maxMessages,
      // A dead connection shows at the next message, before any of it was sent, and is then replaced.
      probe: async () => true,
      onEnd: (session, listener) => session.onEnd(listener),
      end: (session) => session.quit(),
      destroy: (session) => session.destroy(),
    },
    { ...limits, probeAfterMs: Infinity },
  );
}
