import { FolderMissing, MailError } from '../mail-wire/mail-error.ts';
import { textOf, type Untagged } from './tokens.ts';

/** The meaning of a refusal. */
interface Meaning {
  /** of a login: the server allows no further connection at the moment */
  limit?: true;
  /** of a login: the password may be right */
  busy?: true;
  /** of any other command: the same command may work later */
  retryLater?: true;
  /** of any other command: it concerns the login or the connection, not the folder in which the command was sent */
  account?: true;
  /** of FETCH: a message may be damaged */
  damaged?: true;
  /** of APPEND: the message is too large, or over the quota */
  tooMuch?: true;
  /** a folder that the command names does not exist */
  missing?: true;
  /** a folder with that name already exists */
  exists?: true;
  /** messages that the command names were expunged */
  expunged?: true;
  /** the login has no right to do that (RFC 4314) */
  forbidden?: true;
}

/** RFC 5530 unless another one is named. */
const CODES: Readonly<Record<string, Meaning>> = {
  UNAVAILABLE: { limit: true, busy: true, retryLater: true, account: true },
  INUSE: { limit: true, busy: true, retryLater: true },
  LIMIT: { limit: true, busy: true, retryLater: true, tooMuch: true, account: true },
  THROTTLED: { account: true }, // no standard: Gmail, Yahoo
  AUTHENTICATIONFAILED: { account: true },
  AUTHORIZATIONFAILED: { account: true },
  EXPIRED: { account: true },
  PRIVACYREQUIRED: { account: true },
  TEMPFAIL: { busy: true, retryLater: true }, // no standard: Yahoo
  SERVERBUG: { busy: true, retryLater: true, damaged: true },
  CONTACTADMIN: { busy: true, retryLater: true, damaged: true },
  ALERT: { account: true }, // RFC 3501 7.1: a text for the user. Gmail says anything with it.
  OVERQUOTA: { tooMuch: true },
  TOOBIG: { tooMuch: true }, // RFC 4469
  APPENDLIMIT: { tooMuch: true }, // RFC 7889
  NONEXISTENT: { missing: true },
  TRYCREATE: { missing: true }, // RFC 3501 7.1
  ALREADYEXISTS: { exists: true },
  EXPUNGEISSUED: { expunged: true },
  NOPERM: { forbidden: true },
};

/** Gmail, of the traffic of a day: with ALERT, and with OVERQUOTA although the mailbox has space. */
const TRAFFIC = /exceeded .*\b(command|bandwidth) limits?\b/i;

/** Meanings of the texts of servers that send no response code, or ALERT, which has no meaning without its text. */
const TEXTS: readonly { pattern: RegExp; meaning: Meaning; evenWithCode: boolean }[] = [
  {
    pattern: /too many|maximum number of|connection limit/i,
    meaning: { limit: true, busy: true, account: true },
    // Some servers send it with the code of a refused password.
    evenWithCode: true,
  },
  { pattern: TRAFFIC, meaning: { busy: true, account: true }, evenWithCode: true },
  {
    // Exchange Online: `Server Unavailable. 15`; James: `GENERIC_FAILURE_DURING_PROCESSING`; Gmail: `Lookup failed`
    pattern:
      /unavailable|temporar(y|ily)|try again later|generic.failure|internal (server )?error|system error|lookup failed/i,
    meaning: { busy: true },
    evenWithCode: false,
  },
  { pattern: /throttl|rate limit/i, meaning: { account: true }, evenWithCode: true },
  {
    pattern: /quota|too (large|big)|(message|maximum) size/i,
    meaning: { tooMuch: true },
    evenWithCode: false,
  },
];

/** Whether a refusal with this response code (in capitals; undefined: none) and text has the meaning. */
export function means(meaning: keyof Meaning, code: string | undefined, text: string): boolean {
  const isMisused = code === 'OVERQUOTA' && TRAFFIC.test(text);
  if (code !== undefined && !isMisused && CODES[code]?.[meaning]) return true;
  const isByText = !code || code === 'ALERT';
  return TEXTS.some((each) => each.meaning[meaning] && (each.evenWithCode || isByText) && each.pattern.test(text));
}

/** Whether the server refused the command (NO or BAD) with that meaning. */
export function refusedAs(meaning: keyof Meaning, error: unknown): boolean {
  return error instanceof MailError && error.refused && means(meaning, refusalCode(error), error.detail);
}

/** Whether the server refused a command for now: it asks for a later attempt, or speaks of the whole account. */
export function refusedForNow(error: unknown): boolean {
  return refusedAs('retryLater', error) || refusedAs('account', error);
}

/** Whether the server refused a command (NO) for good. A refused login is none. */
export function refusedForGood(error: unknown): error is MailError {
  if (!(error instanceof MailError) || !error.refused || error.code !== 'provider_error') return false;
  const { responseStatus } = (error.cause ?? {}) as { responseStatus?: string };
  return responseStatus === 'NO' && !refusedForNow(error);
}

/** Whether a change was refused for good, by the server or since its folder cannot keep it. */
export function cannotBeMade(error: unknown): error is MailError {
  return refusedForGood(error) || (error instanceof MailError && error.refused && error.code === 'provider_rejected');
}

/**
 * Whether the server refused a command in one folder, which says nothing about the others. A refused SELECT always counts:
 * of a folder on another host, servers say UNAVAILABLE too.
 */
export function refusedInFolder(error: unknown): error is MailError {
  if (!(error instanceof MailError) || !error.refused) return false;
  return error.command === 'SELECT' || !refusedAs('account', error);
}

/** Whether the server refused a FETCH, and one of the messages may be the reason. */
export function refusedFetch(error: unknown): error is MailError {
  if (!refusedInFolder(error) || error.command !== 'FETCH' || refusalCode(error) === 'MESSAGELIMIT') return false;
  return !refusedForNow(error) || refusedAs('damaged', error);
}

/** Whether the server refused the command because a folder that it names does not exist. */
export function refusedAsMissing(error: unknown): boolean {
  return error instanceof FolderMissing || refusedAs('missing', error);
}

/** Whether the server refused the login because there are too many connections. */
export function refusedAsLimit(error: unknown): boolean {
  if (!(error instanceof MailError)) return false;
  // Some servers hang up instead of refusing the login, and give the reason in the BYE.
  const { reason = '' } = (error.cause ?? {}) as { reason?: string };
  return means('limit', refusalCode(error), `${error.detail} ${reason}`);
}

/** Whether the server refused the login because it receives too many logins at the moment. */
export function asksForPatience(error: unknown): boolean {
  if (!(error instanceof MailError)) return false;
  return refusalCode(error) === 'UNAVAILABLE' || /\brate\b|throttl|too many login|try again later/i.test(error.detail);
}

/** Longer pauses are not obeyed, ms. */
const LONGEST_PAUSE_MS = 10 * 60_000;

/** The pause that Exchange suggests when it throttles a mailbox, in milliseconds; undefined: none. */
export function suggestedPause(error: unknown): number | undefined {
  if (!(error instanceof MailError)) return undefined;
  const [, ms] = /Suggested Backoff Time: (\d{1,9}) milliseconds/i.exec(error.detail) ?? [];
  return ms === undefined ? undefined : Math.min(Number(ms), LONGEST_PAUSE_MS);
}

/** Codes of imapflow and Node for a connection that ended before its login was answered. */
const CUT_CODES = new Set([
  ...['ClosedAfterConnectText', 'ClosedAfterConnectTLS', 'EConnectionClosed', 'NoConnection', 'ECONNRESET', 'EPIPE'],
]);

/** Whether the server hung up during the login without a reason: some do that when too many connections are open. */
export function isCut(error: unknown): boolean {
  if (!(error instanceof MailError) || error.refused || error.code !== 'provider_error') return false;
  return CUT_CODES.has((error.cause as { code?: string } | undefined)?.code ?? '');
}

/** The response code with which a command was refused, in capitals; undefined without one. */
export function refusalCode(error: unknown): string | undefined {
  if (!(error instanceof MailError) || !error.refused) return undefined;
  const cause = (error.cause ?? {}) as { serverResponseCode?: string; response?: Untagged | string };
  if (cause.serverResponseCode) return cause.serverResponseCode.toUpperCase();
  return typeof cause.response === 'object' ? responseCode(cause.response)?.name : undefined;
}

/** A response code such as `[COPYUID 38 304 56]`; lists within it are omitted. */
export interface ResponseCode {
  name: string;
  values: string[];
}

/** The response code of a status response. */
export function responseCode(response: Untagged): ResponseCode | undefined {
  const first = response.attributes?.[0];
  const section = first && !Array.isArray(first) ? first.section : undefined;
  const [name, ...values] = (section ?? []).map(textOf);
  return name ? { name: name.toUpperCase(), values: values.filter((value) => value !== undefined) } : undefined;
}
