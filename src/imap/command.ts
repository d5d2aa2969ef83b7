import { encodePath, normalizePath } from 'imapflow/lib/tools.js';
import { responseCode, type ResponseCode } from './response-codes.ts';
import type { ImapSession } from './session.ts';
import type { Untagged } from './tokens.ts';

/** One argument of a command. */
export type Argument =
  | { type: 'ATOM' | 'STRING' | 'SEQUENCE'; value: string }
  | { type: 'LITERAL'; value: Buffer; isLiteral8?: boolean }
  | Argument[];

export interface CommandOptions {
  /** untagged answers that come meanwhile, by their keyword; what is named here is not told to other listeners */
  untagged?: Record<string, (untagged: Untagged) => void>;
  deadlineMs?: number;
  maxResponses?: number;
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
  return session.run(name, run, options.deadlineMs, options.maxResponses, options.silenceMs);
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
