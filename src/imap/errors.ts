import type { ImapFlowError } from 'imapflow';
import type { ServerLogin } from '../contract/account.ts';
import { MailError, reasonOf } from '../mail-wire/mail-error.ts';
import { withoutLogin } from '../mail-wire/server-text.ts';
import { means } from './response-codes.ts';

/** A time-out with a code that reasonOf knows. */
export class TimedOut extends Error {
  readonly code = 'ETIMEDOUT';
}

/** SASL names of logins with access tokens. */
const OAUTH = new Set(['XOAUTH2', 'OAUTHBEARER']);

/**
 * Maps an error that imapflow threw while connecting or logging in to a text that a person can act on.
 * @param capabilities capabilities that the server announced before the error
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
    return failed('the server requires an encrypted connection: use encryption STARTTLS or SSL');
  }
  if (message === NO_MECHANISM && login.token) {
    return failed('the server offers neither XOAUTH2 nor OAUTHBEARER: it accepts no OAuth 2.0 tokens');
  }
  if (message === LOGIN_DISABLED) return failed(disabledDetail(login, capabilities));
  if (code === 'CONNECT_TIMEOUT' && login.encryption === 'SSL') {
    return failed('timed out: the server did not answer with TLS on this port: use encryption STARTTLS');
  }
  if (code === 'GREETING_TIMEOUT' && login.encryption !== 'SSL') {
    return failed('timed out: the server sent no IMAP greeting: use encryption SSL if this port requires it');
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
    return 'the server accepts no password without TLS: use encryption STARTTLS';
  }
  const methods = offered.flatMap((name) => (name.startsWith('AUTH=') ? [name.slice('AUTH='.length)] : []));
  const hint = methods.some((name) => OAUTH.has(name))
    ? ': connect with credentials.oauth2, or with an app password if the provider has them'
    : '';
  const list = withoutLogin(methods.slice(0, 8).join(', '), login);
  return `the server does not accept password logins${list && ` (it offers ${list})`}${hint}`;
}

/** The text that imapflow throws when the server has LOGINDISABLED and no mechanism that imapflow supports. */
const LOGIN_DISABLED = 'Login is disabled';

/** The text that imapflow throws when the server has no mechanism for the given token. */
const NO_MECHANISM = 'Unsupported authentication mechanism';

/**
 * Exchange accepted the token and then refuses every command. Not the credentials: a new login may succeed when connections
 * have ended.
 */
const NOT_CONNECTED = /User is authenticated but not connected/i;
/** In words that are not those of a server at its limit of connections: see response-codes.ts. */
const NOT_CONNECTED_HINT =
  ' (IMAP may be switched off for this mailbox, its licence or the permission of the app may be missing, or more connections are open than it may have)';

/** Codes of imapflow at the limits that it has options for, and of our own limit of responses. */
const TOO_LARGE = new Set(['LineTooLarge', 'LiteralTooLarge', 'ResponseTooLarge', 'TooManyTokens', 'TooManyResponses']);

/** The server sent more than is read of any. */
export function isTooLarge(cause: unknown): boolean {
  return TOO_LARGE.has((cause as { code?: string } | undefined)?.code ?? '');
}

/** Maps any error of imapflow, TLS or the socket during `command` to a MailError. */
export function mailErrorOf(cause: unknown, login: ServerLogin, command: string): MailError {
  if (cause instanceof MailError) return cause;
  const error = (cause ?? {}) as Partial<ImapFlowError> & {
    authenticationFailed?: boolean;
    serverResponseCode?: string;
    response?: unknown;
  };
  const answer = withoutLogin(error.responseText, login);
  const busy = means('busy', error.serverResponseCode?.toUpperCase(), answer);
  // imapflow throws it for the refused command after the login, without its status
  if (typeof error.response === 'string' && NOT_CONNECTED.test(error.response)) {
    const text = withoutLogin(error.response, login);
    const detail = `the IMAP server refused ${command}: ${text}${NOT_CONNECTED_HINT}`;
    return new MailError('provider_error', 'imap', detail, { cause, refused: true, command });
  }
  if (error.authenticationFailed && error.responseStatus === 'NO' && !busy) {
    const detail = answer ? `the IMAP server refused the login: ${answer}` : 'the IMAP server refused the login';
    return new MailError('invalid_credentials', 'imap', detail, { cause });
  }
  if (error.responseStatus === 'NO' || error.responseStatus === 'BAD') {
    const hint = NOT_CONNECTED.test(answer) ? NOT_CONNECTED_HINT : '';
    const detail = `the IMAP server refused ${command}: ${answer || error.responseStatus}${hint}`;
    return new MailError('provider_error', 'imap', detail, { cause, refused: true, command });
  }
  const options = { cause, flooded: isTooLarge(cause) };
  return new MailError('provider_error', 'imap', `${command} failed: ${reasonOf(cause)}`, options);
}
