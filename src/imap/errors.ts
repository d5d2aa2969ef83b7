import type { ImapFlowError } from 'imapflow';
import type { ServerLogin } from '../contract/account.ts';
import { MailError, reasonOf } from '../mail-wire/mail-error.ts';
import { withoutLogin } from '../mail-wire/server-text.ts';
import { means } from './response-codes.ts';

/** reasonOf knows the code. */
export class TimedOut extends Error {
  readonly code = 'ETIMEDOUT';
}

/** Ways to log in that this API does not have, as SASL names, with what a person may do instead. */
const OAUTH = new Set(['XOAUTH2', 'OAUTHBEARER']);

/**
 * Maps what imapflow threw while it connected and logged in, to words that a person can act on.
 * @param capabilities what the server announced until then
 */
export function loginErrorOf(
  cause: unknown,
  login: ServerLogin,
  capabilities: ReadonlyMap<string, unknown>,
): MailError {
  const { code, message, serverResponseCode, reason } = (cause ?? {}) as Partial<ImapFlowError> & {
    serverResponseCode?: string;
    reason?: string;
  };
  const failed = (detail: string) =>
    new MailError('provider_error', 'imap', `the IMAP login failed: ${detail}`, { cause });
  if (serverResponseCode?.toUpperCase() === 'PRIVACYREQUIRED') {
    return failed('the server wants an encrypted connection, try the encryption STARTTLS or SSL');
  }
  if (message === LOGIN_DISABLED) return failed(disabledDetail(login, capabilities));
  if (code === 'CONNECT_TIMEOUT' && login.encryption === 'SSL') {
    return failed('timed out: the server did not answer with TLS on this port, try the encryption STARTTLS');
  }
  if (code === 'GREETING_TIMEOUT' && login.encryption !== 'SSL') {
    return failed('timed out: the server sent no IMAP greeting, it may want the encryption SSL on this port');
  }
  if (code === 'ClosedAfterConnectText' || code === 'ClosedAfterConnectTLS') {
    const why = withoutLogin(reason, login);
    return failed(why ? `the server closed the connection: ${why}` : 'the server closed the connection');
  }
  return mailErrorOf(cause, login, 'the IMAP login');
}

function disabledDetail(login: ServerLogin, capabilities: ReadonlyMap<string, unknown>): string {
  const offered = [...capabilities.keys()].map((name) => name.toUpperCase());
  if (login.encryption === 'NONE' && offered.includes('STARTTLS')) {
    return 'the server allows no password on a connection without TLS, try the encryption STARTTLS';
  }
  const methods = offered.flatMap((name) => (name.startsWith('AUTH=') ? [name.slice('AUTH='.length)] : []));
  const hint = methods.some((name) => OAUTH.has(name)) ? ': it wants OAuth, or an app password' : '';
  const list = withoutLogin(methods.slice(0, 8).join(', '), login);
  return `the server accepts no login with a password here${list && ` (it offers ${list})`}${hint}`;
}

/** What imapflow throws where the server has LOGINDISABLED and none of the mechanisms that imapflow has. */
const LOGIN_DISABLED = 'Login is disabled';

/** Maps whatever imapflow, TLS or the socket threw during `command` to the one error that callers know. */
export function mailErrorOf(cause: unknown, login: ServerLogin, command: string): MailError {
  if (cause instanceof MailError) return cause;
  const error = (cause ?? {}) as Partial<ImapFlowError> & {
    authenticationFailed?: boolean;
    serverResponseCode?: string;
  };
  const answer = withoutLogin(error.responseText, login);
  const busy = means('busy', error.serverResponseCode?.toUpperCase(), answer);
  if (error.authenticationFailed && error.responseStatus === 'NO' && !busy) {
    const detail = answer ? `the IMAP server refused the login: ${answer}` : 'the IMAP server refused the login';
    return new MailError('invalid_credentials', 'imap', detail, { cause });
  }
  if (error.responseStatus === 'NO' || error.responseStatus === 'BAD') {
    const detail = `the IMAP server refused ${command}: ${answer || error.responseStatus}`;
    return new MailError('provider_error', 'imap', detail, { cause, refused: true });
  }
  return new MailError('provider_error', 'imap', `${command} failed: ${reasonOf(cause)}`, { cause });
}
