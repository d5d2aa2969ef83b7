/** Bounds the work that one server can cost this process. */
export interface ResponseGuard {
  /** restarts the count: after this many further responses the connection is closed */
  allow(responses: number): void;
  /** how many responses are still allowed */
  readonly left: number;
  /** the server sent more than allowed; the connection is closed */
  readonly exceeded: boolean;
  /** the refusal of a server that asks for a long pause; the connection is closed */
  readonly throttled: Error | undefined;
}

const LF = 10;
const CR = 13;
const CLOSE = 125;

/** What the parser gets in one turn of the event loop: about 5 ms of work. Bytes of literals cost it nearly nothing. */
const TURN_LINES = 256;
const TURN_BYTES = 16 * 1024;

/** Bytes that count as one more response: of a line, whose every word is parsed, and of a literal. */
const LINE_SHARE = 256;
const LITERAL_SHARE = 64 * 1024;

/** Responses to our commands have only a few. imapflow counts the tokens of a response only once it is complete. */
const MAX_LITERALS = 200;

/** The longest end of a line that announces a literal, without its line break: `{`, 19 digits, `}`. */
const MARKER_LENGTH = 21;

/**
 * Follows the lines and literals in the bytes of a server (RFC 9051 4.3 and 7): counts responses, and divides the bytes into
 * pieces of little work. Literals are recognised as imapflow does it.
 */
export class ResponseMeter implements ResponseGuard {
  exceeded = false;
  throttled: Error | undefined;
  left = Infinity;
  /** bytes of the current literal that are still to come */
  private literal = 0;
  /** literals of the current response */
  private literals = 0;
  /** the last bytes of a line whose end is still to come */
  private tail = '';
  /** what the parser got in this turn */
  private turnLines = 0;
  private turnBytes = 0;

  allow(responses: number): void {
    this.left = responses;
  }

  /** A turn of the event loop begins. */
  beginTurn(): void {
    this.turnLines = 0;
    this.turnBytes = 0;
  }

  /** Counts the first bytes, as many as the parser may still get in this turn, and returns their number. */
  take(bytes: Buffer): number {
    let position = 0;
    while (position < bytes.length) {
      if (this.literal > 0) {
        const length = Math.min(this.literal, bytes.length - position);
        this.literal -= length;
        position += length;
        continue;
      }
      const left = TURN_BYTES - this.turnBytes;
      if (left <= 0 || this.turnLines >= TURN_LINES) break;
      const lineEnd = bytes.indexOf(LF, position);
      const end = Math.min(lineEnd < 0 ? bytes.length : lineEnd + 1, position + left);
      this.spend((end - position) / LINE_SHARE);
      this.turnBytes += end - position;
      if (end === lineEnd + 1) this.endLine(bytes, position, lineEnd);
      else this.tail = (this.tail + latin1(bytes, position, end)).slice(-MARKER_LENGTH - 1);
      position = end;
    }
    return position;
  }

  private endLine(bytes: Buffer, start: number, lineEnd: number): void {
    this.spend(1);
    this.turnLines += 1;
    const end = bytes[lineEnd - 1] === CR && lineEnd > start ? lineEnd - 1 : lineEnd;
    const announces = end > start ? bytes[end - 1] === CLOSE : /\}\r?$/.test(this.tail);
    const size = announces ? literalSize(this.tail + latin1(bytes, start, end)) : undefined;
    this.tail = '';
    this.literals = size === undefined ? 0 : this.literals + 1;
    if (this.literals > MAX_LITERALS) this.exceeded = true;
    this.literal = size ?? 0;
    this.spend(this.literal / LITERAL_SHARE);
  }

  private spend(responses: number): void {
    this.left -= responses;
    if (this.left < 0) this.exceeded = true;
  }
}

/** The last bytes before `end` as text: enough for a marker and its CR. */
function latin1(bytes: Buffer, start: number, end: number): string {
  return bytes.toString('latin1', Math.max(start, end - MARKER_LENGTH - 1), end);
}

function literalSize(line: string): number | undefined {
  const digits = /\{(\d+)\}\r?$/.exec(line)?.[1];
  return digits === undefined ? undefined : Number(digits);
}
