import type { ImapFlowError } from 'imapflow';
import type { ServerLogin } from '../contract/account.ts';
import { MailError, reasonOf, safeResponse } from '../mail-error.ts';
import { means } from './response-codes.ts';

/** reasonOf knows the code. */
export class TimedOut extends Error {
  readonly code = 'ETIMEDOUT';
}

/** Maps whatever imapflow, TLS or the socket threw during `command` to the one error that callers know. */
export function mailErrorOf(cause: unknown, login: ServerLogin, command: string): MailError {
  if (cause instanceof MailError) return cause;
  const error = (cause ?? {}) as Partial<ImapFlowError> & {
    authenticationFailed?: boolean;
    serverResponseCode?: string;
  };
  const answer = safeResponse(error.responseText, [login.password, login.user]);
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
