import type { ImapFlow } from 'imapflow';
import type { Token, Untagged } from './tokens.ts';

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

/**
 * Bytes of one token of a line. imapflow's parser takes quadratic time for sequence sets and other long atoms: a set of 280 KB
 * holds up this process for a minute. The longest that a command here gets is a COPYUID, of a set as long as `uidSets` makes them.
 */
const MAX_TOKEN_BYTES = 16 * 1024;

type UntaggedHandler = (untagged: Untagged) => Promise<void>;

/** Private parts of imapflow that are called (command.ts, idle.ts) or replaced (patchClient). */
export interface ImapFlowInternals {
  handleResponse(data: { payload: Buffer }): Promise<boolean>;
  getUntaggedHandler(command: string, attributes: Token[]): UntaggedHandler | undefined;
  untaggedVanished(untagged: Untagged, mailbox?: { path: string }): Promise<void>;
  /** by the keyword of the response; only what no command in progress listens for gets here */
  untaggedHandlers: Record<string, UntaggedHandler | undefined>;
  exec(
    command: string,
    args: unknown[],
    options?: { untagged: Record<string, UntaggedHandler> },
  ): Promise<{ response: Untagged; next(): void }>;
  run(command: string, ...args: unknown[]): Promise<unknown>;
  streamer: { literals: unknown[]; checkLiteralMarker(line: Buffer): boolean; failStream(error: Error): false };
}

/** The private parts of a client. @throws Error naming the one that this version of imapflow does not have */
export function internalsOf(client: ImapFlow): ImapFlowInternals {
  const internals = client as unknown as ImapFlowInternals;
  const { streamer, handleResponse, getUntaggedHandler, untaggedVanished, untaggedHandlers, exec, run } = internals;
  const isPresent: Record<string, boolean> = {
    exec: typeof exec === 'function',
    run: typeof run === 'function',
    handleResponse: typeof handleResponse === 'function',
    getUntaggedHandler: typeof getUntaggedHandler === 'function',
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
 * response. Names of folders are quoted, and UTF8=ACCEPT (RFC 6855) is enabled only where the server demands it: some that
 * offer it (Courier) store names that no other mail program can list. A VANISHED stays the ranges it came in: `1:4294967295` is 22 bytes on the wire, and imapflow would emit one
 * event for each UID.
 */
export function patchClient(client: ImapFlow): ResponseGuard {
  const internals = internalsOf(client);
  const { streamer } = internals;
  let left = Infinity;
  let exceeded = false;

  const handleResponse = internals.handleResponse.bind(client);
  internals.handleResponse = async (data) => {
    const vanished = readVanished(data.payload);
    if (left-- > 0 && vanished) {
      await internals.getUntaggedHandler('VANISHED', vanished.attributes)?.(vanished);
      return true;
    }
    if (left >= 0 && !hasLongToken(data.payload)) return handleResponse(data);
    exceeded = true;
    client.close();
    return false;
  };

  const exec = internals.exec.bind(client);
  internals.exec = (command, args, options) =>
    exec(command, BEGIN_WITH_NAME.has(command) ? quoteName(args) : args, options);

  const run = internals.run.bind(client);
  internals.run = (command, ...args) => {
    const [extensions] = args;
    if (command !== 'ENABLE' || !Array.isArray(extensions) || client.capabilities.has('UTF8=ONLY')) {
      return run(command, ...args);
    }
    return run(
      command,
      extensions.filter((name) => name !== 'UTF8=ACCEPT'),
    );
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

/** Commands whose first argument is the name of a folder, which imapflow leaves without quotes where it may. */
const BEGIN_WITH_NAME = new Set(['SELECT', 'EXAMINE', 'STATUS']);

/** Some servers take a name such as `~` or `NIL` for something else unless it is quoted. */
function quoteName([name, ...others]: unknown[]): unknown[] {
  const { type, value } = (name ?? {}) as { type?: string; value?: unknown };
  return type === 'ATOM' && typeof value === 'string' ? [{ type: 'STRING', value }, ...others] : [name, ...others];
}

const VANISHED = Buffer.from('* VANISHED ');

/** A VANISHED line (RFC 7162 3.2.10) as imapflow's parser would return it, in linear time; undefined for other lines. */
function readVanished(line: Buffer): Required<Untagged> | undefined {
  const isVanished = line.subarray(0, VANISHED.length).toString('latin1').toUpperCase() === VANISHED.toString();
  const parts = isVanished && /^(\(EARLIER\) )?([\d:,]+)$/i.exec(line.toString('latin1', VANISHED.length));
  if (!parts) return undefined;
  const set = { type: 'SEQUENCE', value: parts[2] };
  return { command: 'VANISHED', attributes: parts[1] ? [[{ type: 'ATOM', value: 'EARLIER' }], set] : [set] };
}

const [SPACE, OPENING, CLOSING] = Buffer.from(' ()') as unknown as [number, number, number];

function hasLongToken(line: Buffer): boolean {
  if (line.length <= MAX_TOKEN_BYTES) return false;
  let length = 0;
  for (const byte of line) {
    if (byte === SPACE || byte === OPENING || byte === CLOSING) length = 0;
    else if (++length > MAX_TOKEN_BYTES) return true;
  }
  return false;
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
