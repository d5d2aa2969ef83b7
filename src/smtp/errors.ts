import { MailError, type MailErrorCode, reasonOf, safeAnswer } from '../mail-error.ts';

/** A try ended without an error of nodemailer's; `code` is one that reasonOf knows. */
export class Ended extends Error {
  readonly code: string;
  constructor(code: string) {
    super(code);
    this.code = code;
  }
}

/** What the server has of a message whose sending failed; `unknown`: it may have all of it, and may deliver it. */
export type SubmitOutcome = 'not_sent' | 'unknown';

/** A message was not taken, or nobody can say whether it was (`unknown`: sending it again may deliver it twice). */
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
 * How far a message got: `envelope`: MAIL, RCPT and DATA; `data`: the server said 354; `handed_over`: the dot that ends
 * it is being written, or is.
 */
export type SendStage = 'envelope' | 'data' | 'handed_over';

/** Sending failed at `stage`; the cause is nodemailer's error or an Ended. */
export class SendFailed extends Error {
  readonly stage: SendStage;
  constructor(stage: SendStage, cause: unknown) {
    super(`sending failed (${stage})`, { cause });
    this.name = 'SendFailed';
    this.stage = stage;
  }
}

/** What nodemailer's errors hold. */
interface SmtpFailure {
  code?: string;
  command?: string;
  responseCode?: number;
  response?: string;
  rejectedErrors?: SmtpFailure[];
}

/** The way to the server failed where nodemailer has no error for it: it offers no login. */
export const NO_LOGIN = 'ENOLOGIN';

/** Answers to AUTH that speak of the credentials (RFC 4954, 6); others speak of the server or of the way to it. */
const REFUSED = new Set([525, 534, 535, 550, 554]);

interface Secrets {
  user: string;
  password: string;
}

/** What failed in connecting and logging in. */
export function smtpErrorOf(cause: unknown, settings: Secrets): MailError {
  if (cause instanceof MailError) return cause;
  const error = (cause ?? {}) as SmtpFailure;
  const code = error.responseCode ?? 0;
  const answer = answerOf(error, settings);
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

/** The server itself said no: 4yz or 5yz (RFC 5321, 4.2.1). */
export function isRefusal(cause: unknown): boolean {
  const code = (cause as SmtpFailure | undefined)?.responseCode ?? 0;
  return code >= 400 && code < 600;
}

/** The server said no and stays for the next message: any refusal but 421, which closes the connection. */
export function leavesConnection({ stage, cause }: SendFailed): boolean {
  return stage !== 'data' && isRefusal(cause) && (cause as SmtpFailure).responseCode !== 421;
}

/**
 * The failure is one of a connection that was kept for too long, and a fresh one may do better: it is dead, or the server
 * wants no more of it (421, or a temporary refusal of MAIL). Nothing of the message had been sent.
 */
export function isStale({ stage, cause }: SendFailed): boolean {
  if (stage !== 'envelope') return false;
  if (!isRefusal(cause)) return !isOurs(cause);
  const { responseCode = 0, command } = cause as SmtpFailure;
  return responseCode === 421 || (responseCode < 500 && command === 'MAIL FROM');
}

/** nodemailer refused an address or the size before it sent anything. */
function isOurs(cause: unknown): boolean {
  const { code, response } = cause as SmtpFailure;
  return !response && (code === 'EENVELOPE' || code === 'EMESSAGE');
}

/** What failed in handing a message over, and what the server has of it. */
export function submitErrorOf({ stage, cause }: SendFailed, settings: Secrets): SubmitError {
  if (isRefusal(cause)) return refusalOf(cause as SmtpFailure, settings);
  if (isOurs(cause)) return new SubmitError('not_sent', 'provider_rejected', 'an address cannot be used', { cause });
  const reason = reasonOf(cause);
  if (stage === 'handed_over') {
    const detail = `the SMTP server got the message and did not say whether it took it: ${reason}`;
    return new SubmitError('unknown', 'provider_error', detail, { cause });
  }
  return new SubmitError('not_sent', 'provider_error', `the SMTP server did not take the message: ${reason}`, {
    cause,
  });
}

const REFUSED_WHAT: Record<string, string> = { 'MAIL FROM': 'the sender', 'RCPT TO': 'every recipient' };

function refusalOf(error: SmtpFailure, settings: Secrets): SubmitError {
  // One recipient that is refused for good makes a second try useless, whatever the others were told.
  const told = error.rejectedErrors?.find(({ responseCode = 0 }) => responseCode >= 500) ?? error;
  const what = REFUSED_WHAT[error.command ?? ''] ?? 'the message';
  const detail = `the SMTP server refused ${what}: ${answerOf(told, settings)}`;
  const code = (told.responseCode ?? 0) >= 500 ? 'provider_rejected' : 'provider_error';
  return new SubmitError('not_sent', code, detail, { refused: true, cause: error });
}

function answerOf(error: SmtpFailure, { user, password }: Secrets): string {
  return safeAnswer(error.response, [password, user]);
}
