import type { ImapFlow } from 'imapflow';

/** A range of UIDs, both ends included. */
export interface UidRange {
  from: number;
  to: number;
}

/** What QRESYNC tells of expunged mail (RFC 7162 3.2.10), as a `vanished` event of the client. */
export interface VanishedEvent {
  path: string;
  /** it answers a question of ours, it is no news */
  earlier: boolean;
  ranges: UidRange[];
}

/** Bounds what one server can make this process do and hold. */
export interface Guard {
  /** starts to count anew: this many answers are taken in before the connection is closed */
  allow(answers: number): void;
  /** the server sent more than was allowed; the connection is closed */
  readonly exceeded: boolean;
}

/** No answer that is asked for here has more than a few; each costs memory however small it is. */
const MAX_LITERALS = 200;

type Attribute = { value?: unknown } | Attribute[] | null;

/** What of imapflow is changed; it has no options for these. */
interface Internals {
  handleResponse(data: unknown): Promise<boolean>;
  untaggedVanished(untagged: { attributes?: Attribute[] }, mailbox?: { path: string }): Promise<void>;
  streamer: { literals: unknown[]; checkLiteralMarker(line: Buffer): boolean; failStream(error: Error): false };
}

/**
 * Sets limits that imapflow has no options for: how many answers one command may get, and how many literals one answer.
 * A VANISHED is kept as the ranges it came in: `1:4294967295` is 22 bytes on the wire.
 */
export function guardClient(client: ImapFlow): Guard {
  const internals = client as unknown as Internals;
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
    allow(answers) {
      left = answers;
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
