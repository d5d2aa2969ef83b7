import { isIP } from 'node:net';
import SMTPConnection from 'nodemailer/lib/smtp-connection';
import type { ServerLogin } from '../contract/account.ts';
import { MailError, reasonOf } from '../mail-wire/mail-error.ts';
import type { Outbound } from '../security/outbound.ts';
import { logInWithToken } from './bearer.ts';
import { Ended, NO_LOGIN, smtpErrorOf } from './errors.ts';

/**
 * Milliseconds for name look-up, connect, TLS and login together. The caller who connects a mailbox waits as long as a message does: what
 * can be connected can send.
 */
export const LOGIN_TIMEOUT_MS = 20_000;

/** Minimum milliseconds for one of several addresses: a dead one leaves time for the next. */
const SHARE_MS = 4_000;

/**
 * Opens and logs in one connection, to a vetted address, with the certificate checked against the host's name.
 * `timeoutMs` is for name look-up, connect, TLS and login together. The caller ends the connection.
 * @throws MailError invalid_credentials when the login was refused, provider_error for all else
 */
export async function openSmtp(
  settings: ServerLogin,
  { outbound, timeoutMs }: { outbound: Outbound; timeoutMs: number },
): Promise<SMTPConnection> {
  const deadline = performance.now() + timeoutMs;
  const addresses = await outbound.resolve(settings.host).catch((cause: unknown) => {
    throw new MailError('provider_error', 'smtp', `the SMTP host could not be reached: ${reasonOf(cause)}`, { cause });
  });
  let last: MailError | undefined;
  for (const [index, { address }] of addresses.entries()) {
    const left = deadline - performance.now();
    try {
      const share = Math.max(SHARE_MS, left / (addresses.length - index));
      return await login(settings, address, Math.min(left, share));
    } catch (cause) {
      const error = smtpErrorOf(cause, settings);
      if (error.code === 'invalid_credentials') throw error;
      last = error;
      if (performance.now() >= deadline) break;
    }
  }
  throw last ?? new MailError('provider_error', 'smtp', 'the SMTP host has no address');
}

async function login(settings: ServerLogin, address: string, ms: number): Promise<SMTPConnection> {
  const connection = new SMTPConnection({
    host: address,
    port: settings.port,
    secure: settings.encryption === 'SSL',
    requireTLS: settings.encryption === 'STARTTLS',
    ignoreTLS: settings.encryption === 'NONE',
    ...(isIP(settings.host) ? {} : { servername: settings.host }),
    tls: { minVersion: 'TLSv1.2' },
    connectionTimeout: ms,
    greetingTimeout: ms,
    socketTimeout: ms,
    // The buffer of a connection that is given up must not reach the server.
    socketCloseTimeout: 0,
    maxResponseSize: 64 * 1024,
    logger: false,
    ...(settings.token ? { customAuth: tokenLogins(settings, () => ehlo) } : {}),
  });
  // where the reply to a message is Amazon's, it depends on the region in the host's name
  connection.options.host = settings.host;
  let ehlo = '';
  let timer: NodeJS.Timeout | undefined;
  try {
    await new Promise<void>((resolve, reject) => {
      timer = setTimeout(() => reject(new Ended('ETIMEDOUT')), Math.max(1, ms));
      connection.on('error', reject);
      connection.once('end', () => reject(new Ended('ECONNECTION')));
      connection.connect((failed) => {
        if (failed) return reject(failed);
        if (!connection.allowsAuth) return reject(new Ended(NO_LOGIN));
        ehlo = connection.lastServerResponse || '';
        connection.login(loginOf(settings), (refused) => (refused ? reject(refused) : resolve()));
      });
    });
    return connection;
  } catch (error) {
    connection.close();
    throw error;
  } finally {
    clearTimeout(timer);
    connection.removeAllListeners();
    // Without a listener an 'error' would end the process.
    connection.on('error', () => {});
  }
}

/** With a token, the method is that of `tokenLogins`. */
function loginOf({ user, password, token }: ServerLogin) {
  return token ? { type: 'custom' as const, method: BEARER, user, pass: password } : { user, pass: password };
}

/** The name of our own login for nodemailer, which has no choice between mechanisms for tokens. */
const BEARER = 'BEARER';

function tokenLogins(settings: ServerLogin, ehlo: () => string) {
  return {
    [BEARER]: (exchange: SMTPConnection.CustomAuthenticationContext) => logInWithToken(settings, ehlo(), exchange),
  };
}

const QUIT_MS = 2_000;

/** QUIT, then close, when the server has replied or after 2 s; never throws. */
export function quitSmtp(connection: SMTPConnection): Promise<void> {
  return new Promise((resolve) => {
    if (connection.destroyed) return resolve();
    const timer = setTimeout(() => connection.close(), QUIT_MS);
    connection.once('end', () => {
      clearTimeout(timer);
      resolve();
    });
    connection.quit();
  });
}

export interface VerifyOptions {
  outbound: Outbound;
  /** milliseconds for connect, TLS and login together */
  timeoutMs?: number;
}

/**
 * Checks that the SMTP server accepts the login.
 * @throws MailError invalid_credentials when the login was refused, provider_error for all else
 */
export async function verifySmtpLogin(settings: ServerLogin, options: VerifyOptions): Promise<void> {
  const { outbound, timeoutMs = LOGIN_TIMEOUT_MS } = options;
  const connection = await openSmtp(settings, { outbound, timeoutMs });
  // The caller does not wait for the end of QUIT.
  void quitSmtp(connection);
}
