import { type ImapSession, openSession, type SessionOptions } from '../../../src/imap/session.ts';
import type { ServerLogin } from '../../../src/contract/account.ts';
import { createOutbound } from '../../../src/security/outbound.ts';
import type { MailLogin } from './mail-user.ts';

/** Reaches only servers on loopback. */
export const LOOPBACK = createOutbound({ allow: ['127.0.0.0/8'] });

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
