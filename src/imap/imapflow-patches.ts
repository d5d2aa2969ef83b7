import type { ImapFlow } from 'imapflow';
import type { Untagged } from './tokens.ts';

/** A range of UIDs, both ends included. */
export interface UidRange {
  from: number;
  to: number;
}

/** What QRESYNC reports of expunged messages (RFC 7162 3.2.10), as a `vanished` event of the client. */
export interface VanishedEvent {
  path: string;
  /** the response to a command of ours, not a change that happened just now */
  earlier: boolean;
  ranges: UidRange[];
}

/** Bounds what one server can make this process do and store. */
export interface ResponseGuard {
  /** counts anew: after this many more responses the connection is closed */
  allow(responses: number): void;
  /** the server sent more than was allowed; the connection is closed */
  readonly exceeded: boolean;
}

/** No response to our commands has more than a few; each costs memory however small it is. */
const MAX_LITERALS = 200;

type UntaggedHandler = (untagged: Untagged) => Promise<void>;

/** Private parts of imapflow that are called (command.ts, idle.ts) or replaced (patchClient). */
export interface ImapFlowInternals {
  handleResponse(data: unknown): Promise<boolean>;
  untaggedVanished(untagged: Untagged, mailbox?: { path: string }): Promise<void>;
  /** by the keyword of the response; only what no command in progress listens for gets here */
  untaggedHandlers: Record<string, UntaggedHandler | undefined>;
  exec(
    command: string,
    args: unknown[],
    options?: { untagged: Record<string, UntaggedHandler> },
  ): Promise<{ response: Untagged; next(): void }>;
  streamer: { literals: unknown[]; checkLiteralMarker(line: Buffer): boolean; failStream(error: Error): false };
}

/** The private parts of a client. @throws Error naming the one that this version of imapflow does not have */
export function internalsOf(client: ImapFlow): ImapFlowInternals {
  const internals = client as unknown as ImapFlowInternals;
  const { streamer, handleResponse, untaggedVanished, untaggedHandlers, exec } = internals;
  const isPresent: Record<string, boolean> = {
    exec: typeof exec === 'function',
    handleResponse: typeof handleResponse === 'function',
    untaggedVanished: typeof untaggedVanished === 'function',
    untaggedHandlers: typeof untaggedHandlers === 'object',
    'streamer.literals': Array.isArray(streamer?.literals),
    'streamer.checkLiteralMarker': typeof streamer?.checkLiteralMarker === 'function',
    'streamer.failStream': typeof streamer?.failStream === 'function',
  };
  const missing = Object.keys(isPresent).filter((name) => !isPresent[name]);
  if (missing.length > 0) throw new Error(`this version of imapflow has no ${missing.join(', ')}`);
  return internals;
}

/**
 * Sets limits that imapflow has no options for: how many responses one command may get, and how many literals one
 * response. A VANISHED stays the ranges it came in: `1:4294967295` is 22 bytes on the wire, and imapflow would emit one
 * event for each UID.
 */
export function patchClient(client: ImapFlow): ResponseGuard {
  const internals = internalsOf(client);
  const { streamer } = internals;
  let left = Infinity;
  let exceeded = false;

  const handleResponse = internals.handleResponse.bind(client);
  internals.handleResponse = async (data) => {
    if (left-- > 0) return handleResponse(data);
    exceeded = true;
    client.close();
    return false;
  };

  const checkLiteralMarker = streamer.checkLiteralMarker.bind(streamer);
  streamer.checkLiteralMarker = (line) => {
    if (!checkLiteralMarker(line)) return false;
    if (streamer.literals.length < MAX_LITERALS) return true;
    return streamer.failStream(Object.assign(new Error('too many literals'), { code: 'LiteralTooLarge' }));
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

/** The ranges of a sequence set; what is not a number is left out. */
export function uidRanges(set: string): UidRange[] {
  return set.split(',').flatMap((part) => {
    const ends = /^(\d{1,10})(?::(\d{1,10}))?$/.exec(part.trim());
    if (!ends) return [];
    const [first, last] = [Number(ends[1]), Number(ends[2] ?? ends[1])];
    return [{ from: Math.min(first, last), to: Math.max(first, last) }];
  });
}
