import { isIP } from 'node:net';
import SMTPConnection from 'nodemailer/lib/smtp-connection';
import type { Encryption } from '../contract/account.ts';
import type { Outbound } from '../outbound.ts';
import { MailError, safeAnswer } from './errors.ts';
import { reasonOf } from './reasons.ts';

/** How to reach and enter the server that takes mail to be sent. */
export interface SmtpSettings {
  host: string;
  port: number;
  user: string;
  password: string;
  encryption: Encryption;
}

export interface SubmitOptions {
  outbound: Outbound;
  /** milliseconds for connect, TLS and login together */
  timeoutMs?: number;
}

const LOGIN_TIMEOUT_MS = 20_000;

/**
 * Logs in to the SMTP server and leaves again, to see whether mail can be sent.
 * @throws MailError invalid_credentials when the login was refused, provider_error for all else
 */
export async function verifySmtpLogin(settings: SmtpSettings, options: SubmitOptions): Promise<void> {
  const deadline = Date.now() + (options.timeoutMs ?? LOGIN_TIMEOUT_MS);
  const addresses = await options.outbound.resolve(settings.host).catch((cause: unknown) => {
    throw new MailError('provider_error', 'smtp', `the SMTP host could not be reached: ${reasonOf(cause)}`, { cause });
  });
  let last: MailError | undefined;
  for (const { address } of addresses) {
    try {
      return await loginOnce(settings, address, deadline - Date.now());
    } catch (cause) {
      const error = smtpErrorOf(cause, settings);
      if (error.code === 'invalid_credentials') throw error;
      last = error;
      if (Date.now() >= deadline) break;
    }
  }
  throw last ?? new MailError('provider_error', 'smtp', 'the SMTP host has no address');
}

async function loginOnce(settings: SmtpSettings, address: string, ms: number): Promise<void> {
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
    socketCloseTimeout: 1_000,
    maxResponseSize: 64 * 1024,
    logger: false,
  });
  let timer: NodeJS.Timeout | undefined;
  try {
    await new Promise<void>((resolve, reject) => {
      timer = setTimeout(() => reject(new Ended('ETIMEDOUT')), Math.max(1, ms));
      connection.on('error', reject);
      connection.once('end', () => reject(new Ended('ECONNECTION')));
      connection.connect((failed) => {
        if (failed) return reject(failed);
        if (!connection.allowsAuth) return reject(new Ended(NO_LOGIN));
        connection.login({ user: settings.user, pass: settings.password }, (refused) =>
          refused ? reject(refused) : resolve(),
        );
      });
    });
    connection.quit();
  } catch (error) {
    connection.close();
    throw error;
  } finally {
    clearTimeout(timer);
    connection.removeAllListeners('error');
    connection.on('error', () => {});
  }
}

/** The try ended without an error of nodemailer's. */
class Ended extends Error {
  readonly code: string;
  constructor(code: string) {
    super(code);
    this.code = code;
  }
}

const NO_LOGIN = 'ENOLOGIN';

interface SmtpFailure {
  code?: string;
  responseCode?: number;
  response?: string;
}

/** Answers to AUTH that speak of the credentials (RFC 4954, 6); others speak of the server or of the way to it. */
const REFUSED = new Set([525, 534, 535, 550, 554]);

function smtpErrorOf(cause: unknown, settings: SmtpSettings): MailError {
  const error = (cause ?? {}) as SmtpFailure;
  const code = error.responseCode ?? 0;
  const answer = safeAnswer(error.response, [settings.password, settings.user]);
  if (error.code === 'EAUTH' && REFUSED.has(code)) {
    const detail = answer ? `the SMTP server refused the login: ${answer}` : 'the SMTP server refused the login';
    return new MailError('invalid_credentials', 'smtp', detail, { cause });
  }
  if (error.code === NO_LOGIN) {
    const detail = 'the SMTP server offers no login, at least not with this encryption';
    return new MailError('provider_error', 'smtp', detail, { cause });
  }
  const detail = answer ? `the SMTP server answered: ${answer}` : `the SMTP login failed: ${reasonOf(cause)}`;
  return new MailError('provider_error', 'smtp', detail, { cause });
}
