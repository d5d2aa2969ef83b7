import { encodePath, normalizePath } from 'imapflow/lib/tools.js';
import { FolderMissing, MailError } from '../mail-error.ts';
import type { ImapSession } from './session.ts';

/** A token of an answer as imapflow parsed it. */
export type Token = { type?: string; value?: unknown; section?: Token[] } | Token[] | null | undefined;

/** One argument of a command. */
export type Argument =
  | { type: 'ATOM' | 'STRING' | 'SEQUENCE'; value: string }
  | { type: 'LITERAL'; value: Buffer; isLiteral8?: boolean }
  | Argument[];

/** An untagged answer: for `* 12 FETCH (…)` the number is the command. */
export interface Untagged {
  command?: string;
  attributes?: Token[];
}

/** A response code such as `[COPYUID 38 304 56]`; lists within it are left out. */
export interface ResponseCode {
  name: string;
  values: string[];
}

export interface CommandOptions {
  /** untagged answers that come meanwhile, by their keyword; what is named here is not told to other listeners */
  untagged?: Record<string, (untagged: Untagged) => void>;
  deadlineMs?: number;
  maxAnswers?: number;
  silenceMs?: number;
}

interface Exec {
  exec(
    command: string,
    args: Argument[],
    options: { untagged: Record<string, (untagged: Untagged) => Promise<void>> },
  ): Promise<{ response: Untagged; next(): void }>;
}

/**
 * Runs one command and answers the response code of its OK, if there is one. imapflow's own functions for commands that
 * write answer `false` for a refusal, or nothing; this one throws.
 * @throws MailError, with `refused` when the server answered NO or BAD
 */
export function command(
  session: ImapSession,
  name: string,
  args: Argument[],
  options: CommandOptions = {},
): Promise<ResponseCode | undefined> {
  const client = session.client as unknown as Exec;
  const untagged = Object.fromEntries(
    Object.entries(options.untagged ?? {}).map(([keyword, hear]) => [keyword, async (each: Untagged) => hear(each)]),
  );
  const run = async () => {
    const answer = await client.exec(name, args, { untagged });
    answer.next();
    // It lets a NO pass that tells of messages which no longer exist.
    if (answer.response.command?.toUpperCase() !== 'OK') {
      throw Object.assign(new Error('refused'), { responseStatus: 'NO', response: answer.response });
    }
    return responseCode(answer.response);
  };
  return session.step(name, run, options.deadlineMs, options.maxAnswers, options.silenceMs);
}

/** The response code of an answer. */
export function responseCode(answer: Untagged): ResponseCode | undefined {
  const first = answer.attributes?.[0];
  const section = first && !Array.isArray(first) ? first.section : undefined;
  const [name, ...values] = (section ?? []).map(textOf);
  return name ? { name: name.toUpperCase(), values: values.filter((value) => value !== undefined) } : undefined;
}

/** The text of a token; undefined for lists and NIL. */
export function textOf(token: Token): string | undefined {
  return token && !Array.isArray(token) && typeof token.value === 'string' ? token.value : undefined;
}

/** The response code with which a command was refused (RFC 5530), in capitals; undefined when there was none. */
export function refusalCode(error: unknown): string | undefined {
  if (!(error instanceof MailError) || !error.refused) return undefined;
  const cause = (error.cause ?? {}) as { serverResponseCode?: string; response?: Untagged | string };
  if (cause.serverResponseCode) return cause.serverResponseCode.toUpperCase();
  return typeof cause.response === 'object' ? responseCode(cause.response)?.name : undefined;
}

/** Whether the server refused the step because a folder that it names does not exist. */
export function refusedAsMissing(error: unknown): boolean {
  return error instanceof FolderMissing || ['TRYCREATE', 'NONEXISTENT'].includes(refusalCode(error) ?? '');
}

/** UIDPLUS (RFC 4315): the server says where mail went. Such an answer of another server is not relied on. */
export function hasUidplus(session: ImapSession): boolean {
  return session.has('UIDPLUS') || session.has('IMAP4rev2');
}

/** MOVE (RFC 6851). */
export function hasMove(session: ImapSession): boolean {
  return session.has('MOVE') || session.has('IMAP4rev2');
}

/** A folder's path as an argument: in modified UTF-7 where the server has no other, and in quotes. */
export function folderArgument(session: ImapSession, path: string): Argument {
  return { type: 'STRING', value: encodePath(session.client, normalizePath(session.client, path)) };
}

export function atom(value: string): Argument {
  return { type: 'ATOM', value };
}

/** A set of UIDs or sequence numbers as an argument. */
export function setArgument(value: string): Argument {
  return { type: 'SEQUENCE', value };
}
