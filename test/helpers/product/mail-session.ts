import { type ImapSession, openSession, type SessionOptions } from '../../../src/imap/session.ts';
import type { ServerLogin } from '../../../src/contract/account.ts';
import type { Db } from '../../../src/db/driver/client.ts';
import { openCredentials } from '../../../src/mailbox/settings.ts';
import { createTokens, type Tokens } from '../../../src/oauth/tokens.ts';
import { createLogger } from '../../../src/runtime/logger.ts';
import { createOutboundFetch } from '../../../src/security/outbound-fetch.ts';
import { createOutbound } from '../../../src/security/outbound.ts';
import type { Secrets } from '../../../src/security/secrets.ts';
import type { MailLogin } from './mail-user.ts';

/** Reaches only servers on loopback. */
export const LOOPBACK = createOutbound({ allow: ['127.0.0.0/8'] });

/** Calls authorization servers on loopback. */
export const LOOPBACK_FETCH = createOutboundFetch({
  outbound: LOOPBACK,
  timeoutMs: 5_000,
  maxBytes: 64 * 1024,
  allowsLoopbackHttp: true,
});

/** The tokens of a worker whose token endpoints are on loopback. */
export function testTokens({ db, secrets }: { db: Db; secrets: Secrets }): Tokens {
  return createTokens({
    db,
    secrets,
    logger: createLogger('silent', 'test'),
    fetch: LOOPBACK_FETCH,
    oauth2Of: (id, credentials) => openCredentials(secrets, id, credentials).oauth2,
  });
}

/** How the product's IMAP code reaches a mailbox of the tests, without TLS. */
export function imapSettings({
  user,
  password,
  imapPort,
}: Pick<MailLogin, 'user' | 'password' | 'imapPort'>): ServerLogin {
  return { host: '127.0.0.1', port: imapPort, user, password, encryption: 'NONE' };
}

/** A session of the product's IMAP code. */
export function openTestSession(
  login: Pick<MailLogin, 'user' | 'password' | 'imapPort'>,
  options: Partial<SessionOptions> = {},
): Promise<ImapSession> {
  return openSession(imapSettings(login), { outbound: LOOPBACK, connectTimeoutMs: 10_000, ...options });
}
