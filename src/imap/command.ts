import { encodePath, normalizePath } from 'imapflow/lib/tools.js';
import { internalsOf, isEmpty } from './imapflow-patches.ts';
import { type ResponseCode, responseCode } from './response-codes.ts';
import type { CommandLimits, ImapSession } from './session.ts';
import type { Untagged } from './tokens.ts';

/** One argument of a command. */
export type Argument =
  | { type: 'ATOM' | 'STRING' | 'SEQUENCE'; value: string }
  | { type: 'LITERAL'; value: Buffer; isLiteral8?: boolean }
  | Argument[];

export interface CommandOptions extends CommandLimits {
  /** listeners for untagged responses by their keyword; imapflow's own listeners do not receive these */
  untagged?: Record<string, (untagged: Untagged) => void>;
}

/**
 * Runs one command and returns the response code of its OK, if any. imapflow's own functions for commands that
 * write return `false` or nothing for a refusal; this function throws. One that names messages is not sent to an empty
 * folder, where it would change nothing: some servers (Apache James) refuse a set of UIDs there.
 * @throws MailError, with `refused` when the server answered NO or BAD
 */
export function command(
  session: ImapSession,
  name: string,
  args: Argument[],
  options: CommandOptions = {},
): Promise<ResponseCode | undefined> {
  if (NAMES_MESSAGES.has(name) && isEmpty(session.client)) return Promise.resolve(undefined);
  const client = internalsOf(session.client);
  const { untagged: listeners = {}, ...limits } = options;
  const untagged = Object.fromEntries(
    Object.entries(listeners).map(([keyword, listen]) => [keyword, async (each: Untagged) => listen(each)]),
  );
  const run = async () => {
    const { response, next } = await client.exec(name, args, { untagged });
    next();
    // imapflow ignores a NO that reports messages which no longer exist.
    if (response.command?.toUpperCase() !== 'OK') {
      throw Object.assign(new Error('refused'), { responseStatus: 'NO', response });
    }
    return responseCode(response);
  };
  return session.run(name, run, limits);
}

const NAMES_MESSAGES = new Set(['UID STORE', 'UID COPY', 'UID MOVE', 'UID EXPUNGE']);

/** UIDPLUS (RFC 4315): the server reports where messages went. Such responses are ignored without it. */
export function hasUidplus(session: ImapSession): boolean {
  return session.has('UIDPLUS') || session.has('IMAP4rev2');
}

/** MOVE (RFC 6851). */
export function hasMove(session: ImapSession): boolean {
  return session.has('MOVE') || session.has('IMAP4rev2');
}

/** A folder's path as an argument: in quotes, and in modified UTF-7 where the server knows no other encoding. */
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
