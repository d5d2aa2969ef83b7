import type { Outbound } from '../outbound.ts';
import { openSmtp, quitSmtp, type SmtpSettings } from './login.ts';

export type { SmtpSettings } from './login.ts';

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
  const { outbound, timeoutMs = LOGIN_TIMEOUT_MS } = options;
  const connection = await openSmtp(settings, { outbound, timeoutMs });
  // nobody waits for the goodbye
  void quitSmtp(connection);
}
