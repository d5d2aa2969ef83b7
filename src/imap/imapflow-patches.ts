import type { ImapFlow } from 'imapflow';
import type { Untagged } from './tokens.ts';

/** A range of UIDs, both ends included. */
export interface UidRange {
  from: number;
  to: number;
}

/** Expunged messages as QRESYNC reports them (RFC 7162 3.2.10), in a `vanished` event of the client. */
export interface VanishedEvent {
  path: string;
  /** the response to a command of ours, not a change of this moment */
  earlier: boolean;
  ranges: UidRange[];
}

/** Bounds the work and memory that one server can cost this process. */
export interface ResponseGuard {
  /** restarts the count: after this many further responses the connection is closed */
  allow(responses: number): void;
  /** the server sent more responses, or a larger one, than allowed; the connection is closed */
  readonly exceeded: boolean;
}

/** Responses to our commands have only a few. imapflow counts the tokens of a response only once it is complete. */
const MAX_LITERALS = 200;

type UntaggedHandler = (untagged: Untagged) => Promise<void>;

/** Private parts of imapflow that are called (command.ts, idle.ts) or replaced (patchClient). */
export interface ImapFlowInternals {
  handleResponse(data: { payload: Buffer }): Promise<boolean>;
  untaggedVanished(untagged: Untagged, mailbox?: { path: string }): Promise<void>;
  /** by the keyword of the response; called only for responses that no command in progress listens for */
  untaggedHandlers: Record<string, UntaggedHandler | undefined>;
  exec(
    command: string,
    args: unknown[],
    options?: { untagged: Record<string, UntaggedHandler> },
  ): Promise<{ response: Untagged; next(): void }>;
  run(command: string, ...args: unknown[]): Promise<unknown>;
  streamer: { checkLiteralMarker(line: Buffer): boolean };
}

/** The private parts of a client. @throws Error naming the part that this version of imapflow lacks */
export function internalsOf(client: ImapFlow): ImapFlowInternals {
  const internals = client as unknown as ImapFlowInternals;
  const { streamer, handleResponse, untaggedVanished, untaggedHandlers, exec, run } = internals;
  const isPresent: Record<string, boolean> = {
    exec: typeof exec === 'function',
    run: typeof run === 'function',
    handleResponse: typeof handleResponse === 'function',
    untaggedVanished: typeof untaggedVanished === 'function',
    untaggedHandlers: typeof untaggedHandlers === 'object',
    'streamer.checkLiteralMarker': typeof streamer?.checkLiteralMarker === 'function',
  };
  const missing = Object.keys(isPresent).filter((name) => !isPresent[name]);
  if (missing.length > 0) throw new Error(`this version of imapflow has no ${missing.join(', ')}`);
  return internals;
}

/**
 * Patches imapflow where it has no option:
 *
 * - limits how many responses one command may get, and how many literals one response may have;
 * - quotes the names of folders;
 * - sends no FETCH or SEARCH to an empty folder: some servers (Apache James) refuse a set of UIDs there;
 * - enables UTF8=ACCEPT (RFC 6855) only where the server requires it: some that offer it (Courier) store names that no other
 *   mail program can list. `disableAutoEnable` would also turn off what imapflow does for servers that refuse IMAP4rev2;
 * - keeps a VANISHED as the ranges it came in: `1:4294967295` is 22 bytes on the wire, and imapflow emits one event for
 *   each UID.
 */
export function patchClient(client: ImapFlow): ResponseGuard {
  const internals = internalsOf(client);
  const { streamer } = internals;
  let left = Infinity;
  let literals = 0;
  let exceeded = false;
  const giveUp = (): false => {
    exceeded = true;
    client.close();
    return false;
  };

  client.on('error', ({ code }: Error & { code?: string }) => {
    exceeded ||= TOO_LARGE.has(code ?? '');
  });

  const handleResponse = internals.handleResponse.bind(client);
  internals.handleResponse = async (data) => {
    literals = 0;
    return left-- > 0 ? handleResponse(data) : giveUp();
  };

  const checkLiteralMarker = streamer.checkLiteralMarker.bind(streamer);
  streamer.checkLiteralMarker = (line) => {
    if (!checkLiteralMarker(line)) return false;
    return ++literals <= MAX_LITERALS || giveUp();
  };

  const exec = internals.exec.bind(client);
  internals.exec = (command, args, options) =>
    exec(command, BEGIN_WITH_NAME.has(command) ? quoteName(args) : args, options);

  const run = internals.run.bind(client);
  internals.run = async (command, ...args) => {
    const nothing = IN_EMPTY_FOLDER[command];
    if (nothing && isEmpty(client)) return nothing();
    const [extensions] = args;
    if (command !== 'ENABLE' || !Array.isArray(extensions) || client.capabilities.has('UTF8=ONLY')) {
      return run(command, ...args);
    }
    return run(
      command,
      extensions.filter((name) => name !== 'UTF8=ACCEPT'),
    );
  };

  internals.untaggedVanished = async ({ attributes = [] }, mailbox = client.mailbox || undefined) => {
    const set = attributes.at(-1);
    if (!mailbox || !set || Array.isArray(set) || typeof set.value !== 'string') return;
    const event: VanishedEvent = {
      path: mailbox.path,
      earlier: Array.isArray(attributes[0]),
      ranges: uidRanges(set.value),
    };
    (client as NodeJS.EventEmitter).emit('vanished', event);
  };

  return {
    allow(responses) {
      left = responses;
    },
    get exceeded() {
      return exceeded;
    },
  };
}

/** What imapflow returns for these commands in a folder without messages. */
const IN_EMPTY_FOLDER: Record<string, () => unknown> = { FETCH: () => ({ count: 0, list: [] }), SEARCH: () => [] };

/** Whether the selected folder has no messages, as far as the server has said. */
export function isEmpty({ mailbox }: ImapFlow): boolean {
  return mailbox !== false && mailbox?.exists === 0;
}

/** Error codes of imapflow at the limits that it has options for. */
const TOO_LARGE = new Set(['LineTooLarge', 'LiteralTooLarge', 'ResponseTooLarge', 'TooManyTokens']);

/** Commands whose first argument is the name of a folder, which imapflow quotes only where it must. */
const BEGIN_WITH_NAME = new Set(['SELECT', 'EXAMINE', 'STATUS']);

/** Some servers misread a name such as `~` or `NIL` unless it is quoted. */
function quoteName([name, ...others]: unknown[]): unknown[] {
  const { type, value } = (name ?? {}) as { type?: string; value?: unknown };
  return type === 'ATOM' && typeof value === 'string' ? [{ type: 'STRING', value }, ...others] : [name, ...others];
}

/** The ranges of a sequence set; anything but numbers is omitted. */
export function uidRanges(set: string): UidRange[] {
  return set.split(',').flatMap((part) => {
    const ends = /^(\d{1,10})(?::(\d{1,10}))?$/.exec(part.trim());
    if (!ends) return [];
    const [first, last] = [Number(ends[1]), Number(ends[2] ?? ends[1])];
    return [{ from: Math.min(first, last), to: Math.max(first, last) }];
  });
}
