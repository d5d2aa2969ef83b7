import { MailError, type MailErrorCode, reasonOf } from '../mail-wire/mail-error.ts';
import { type Login, withoutLogin } from '../mail-wire/server-text.ts';

/** An attempt ended without an error of nodemailer's; `code` is one that reasonOf knows. */
export class Ended extends Error {
  readonly code: string;
  constructor(code: string) {
    super(code);
    this.code = code;
  }
}

/** What the server has of a message whose submission failed; `unknown`: it may have all of it and deliver it. */
export type SubmitOutcome = 'not_sent' | 'unknown';

/** A message was not accepted, or it is unknown whether it was (`unknown`: sending it again may deliver it twice). */
export class SubmitError extends MailError {
  readonly outcome: SubmitOutcome;
  constructor(
    outcome: SubmitOutcome,
    code: MailErrorCode,
    detail: string,
    options: { temporary?: boolean; refused?: boolean; cause?: unknown } = {},
  ) {
    super(code, 'smtp', detail, { ...(outcome === 'unknown' ? { temporary: false } : {}), ...options });
    this.name = 'SubmitError';
    this.outcome = outcome;
  }
}

/**
 * How far a message got: `envelope`: MAIL, RCPT and DATA; `data`: the server said 354; `final_dot`: the dot that ends it
 * is being written, or was.
 */
export type SendStage = 'envelope' | 'data' | 'final_dot';

/** Sending failed at `stage`; the cause is nodemailer's error or an Ended. */
export class SendFailed extends Error {
  readonly stage: SendStage;
  /** the replies to recipients that were refused before, by address */
  readonly refused: ReadonlyMap<string, string>;
  constructor(stage: SendStage, cause: unknown, refused: ReadonlyMap<string, string> = new Map()) {
    super(`sending failed (${stage})`, { cause });
    this.name = 'SendFailed';
    this.stage = stage;
    this.refused = refused;
  }
}

/** What nodemailer's errors hold. */
interface SmtpFailure {
  code?: string;
  /** of the error that nodemailer has wrapped */
  originalCode?: string;
  command?: string;
  responseCode?: number;
  response?: string;
  rejectedErrors?: SmtpFailure[];
}

/** The server offers no login; nodemailer has no code for that. */
export const NO_LOGIN = 'ENOLOGIN';

/** The server accepts no access tokens. */
export const NO_BEARER = 'ENOBEARER';

/**
 * Replies of Exchange about a switch that only an administrator can turn: no token and no password helps.
 * https://aka.ms/smtp_auth_disabled
 */
const SUBMISSION_DISABLED = /SmtpClientAuthentication is disabled/i;

/** Replies to AUTH that concern the credentials (RFC 4954, 6); others concern the server or the connection. */
const REFUSED = new Set([525, 534, 535, 550, 554]);

/** The MailError of a failed connect or login. */
export function smtpErrorOf(cause: unknown, settings: Login): MailError {
  if (cause instanceof MailError) return cause;
  const error = (cause ?? {}) as SmtpFailure;
  const code = error.responseCode ?? 0;
  const reply = replyOf(error, settings);
  if (error.code === 'EAUTH' && SUBMISSION_DISABLED.test(reply)) {
    const detail = `the SMTP server accepts no logins for this mailbox: an administrator has to enable authenticated SMTP: ${reply}`;
    return new MailError('provider_rejected', 'smtp', detail, { cause });
  }
  if (error.code === 'EAUTH' && REFUSED.has(code)) {
    const detail = reply ? `the SMTP server refused the login: ${reply}` : 'the SMTP server refused the login';
    return new MailError('invalid_credentials', 'smtp', detail, { cause });
  }
  if (error.originalCode === NO_BEARER) {
    const detail = 'the SMTP server offers neither XOAUTH2 nor OAUTHBEARER: it accepts no OAuth 2.0 tokens';
    return new MailError('provider_error', 'smtp', detail, { cause });
  }
  if (error.code === NO_LOGIN) {
    const detail = 'the SMTP server offers no login with this encryption: try SSL or STARTTLS';
    return new MailError('provider_error', 'smtp', detail, { cause });
  }
  const detail = reply ? `the SMTP server replied: ${reply}` : `the SMTP login failed: ${reasonOf(cause)}`;
  return new MailError('provider_error', 'smtp', detail, { cause });
}

/** The server itself refused: 4yz or 5yz (RFC 5321, 4.2.1). */
export function isRefusal(cause: unknown): boolean {
  const code = (cause as SmtpFailure | undefined)?.responseCode ?? 0;
  return code >= 400 && code < 600;
}

/** The server refused and stays for the next message: any refusal except 421, which closes the connection. */
export function leavesConnection({ stage, cause }: SendFailed): boolean {
  return stage !== 'data' && isRefusal(cause) && (cause as SmtpFailure).responseCode !== 421;
}

/**
 * The connection was idle for too long, and a fresh one may do better: it is dead, or the server wants no more messages
 * on it (421, or a temporary refusal of MAIL). Nothing of the message had been sent.
 */
export function isStale({ stage, cause }: SendFailed): boolean {
  if (stage !== 'envelope') return false;
  if (!isRefusal(cause)) return !isLocal(cause);
  const { responseCode = 0, command } = cause as SmtpFailure;
  return responseCode === 421 || (responseCode < 500 && command === 'MAIL FROM');
}

/** The server has ended the connection after it had refused recipients, as many do after some number of these. */
export function endsAtRecipients({ cause, refused }: SendFailed): boolean {
  return refused.size > 0 && (!isRefusal(cause) || (cause as SmtpFailure).responseCode === 421);
}

/** No recipient is left: each was refused with one of these replies, on one connection or several. */
export function everyRecipientRefused(replies: readonly string[], settings: Login): SubmitError {
  const rejectedErrors = replies.map(refusedWith);
  return refusalOf({ command: 'RCPT TO', ...rejectedErrors.at(-1), rejectedErrors }, settings);
}

const refusedWith = (response: string) => ({ responseCode: Number(response.slice(0, 3)), response });

/** nodemailer refused an address or the size before it sent anything. */
function isLocal(cause: unknown): boolean {
  const { code, response } = cause as SmtpFailure;
  return !response && (code === 'EENVELOPE' || code === 'EMESSAGE');
}

/**
 * Why a message could not be submitted, and what the server has of it. `earlier`: the replies to recipients that were refused on
 * connections before.
 */
export function submitErrorOf(
  { stage, cause }: SendFailed,
  settings: Login,
  earlier: readonly string[] = [],
): SubmitError {
  if (isRefusal(cause)) return refusalOf(withEarlier(cause as SmtpFailure, earlier), settings);
  if (isLocal(cause))
    return new SubmitError('not_sent', 'provider_rejected', 'an address of the message is not valid', { cause });
  const reason = reasonOf(cause);
  if (stage === 'final_dot') {
    const detail = `the SMTP server received the message and did not say whether it accepted it: ${reason}`;
    return new SubmitError('unknown', 'provider_error', detail, { cause });
  }
  return new SubmitError('not_sent', 'provider_error', `the SMTP server did not accept the message: ${reason}`, {
    cause,
  });
}

function withEarlier(error: SmtpFailure, earlier: readonly string[]): SmtpFailure {
  if (error.command !== 'RCPT TO' || earlier.length === 0) return error;
  return { ...error, rejectedErrors: [...earlier.map(refusedWith), ...(error.rejectedErrors ?? [error])] };
}

const REFUSED_WHAT: Record<string, string> = { 'MAIL FROM': 'the sender', 'RCPT TO': 'every recipient' };

function refusalOf(error: SmtpFailure, settings: Login): SubmitError {
  // One permanently refused recipient makes another attempt useless, regardless of the other replies.
  const worst = error.rejectedErrors?.find(({ responseCode = 0 }) => responseCode >= 500) ?? error;
  const what = REFUSED_WHAT[error.command ?? ''] ?? 'the message';
  const detail = `the SMTP server refused ${what}: ${replyOf(worst, settings)}`;
  const code = (worst.responseCode ?? 0) >= 500 ? 'provider_rejected' : 'provider_error';
  return new SubmitError('not_sent', code, detail, { refused: true, cause: error });
}

function replyOf(error: SmtpFailure, login: Login): string {
  return withoutLogin(error.response, login);
}
