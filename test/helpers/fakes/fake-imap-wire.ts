/** One argument of a command: an atom or string as text, or a list of them. */
export type Arg = string | Arg[];

/** A command as the client sent it. */
export interface Command {
  tag: string;
  /** upper case, with a leading UID if sent */
  name: string;
  args: Arg[];
}

/** A received command: `{0}`, `{1}` … replace the literals in the text. */
export interface Line {
  text: string;
  literals: Buffer[];
}

/** Extracts complete commands from received bytes. */
export class CommandReader {
  private chunks: Buffer[] = [];
  private size = 0;
  /** bytes needed for the next complete command */
  private wanted = 0;
  private line: Line = { text: '', literals: [] };
  private literal: number | undefined;
  private readonly mayCome: (size: number, line: string) => boolean;

  /**
   * @param mayCome called before the client sends an announced literal; tells the client to continue; false: refused
   */
  constructor(mayCome: (size: number, line: string) => boolean) {
    this.mayCome = mayCome;
  }

  read(chunk: Buffer): Line[] {
    this.chunks.push(chunk);
    this.size += chunk.length;
    if (this.size < this.wanted) return [];
    let waiting = Buffer.concat(this.chunks);
    const lines: Line[] = [];
    for (;;) {
      const used = this.take(waiting, lines);
      if (used === 0) break;
      waiting = waiting.subarray(used);
    }
    this.chunks = [waiting];
    this.size = waiting.length;
    this.wanted = this.literal ?? 0;
    return lines;
  }

  /** Takes one literal, line, or piece of a line up to a literal; returns its length in bytes. */
  private take(waiting: Buffer, lines: Line[]): number {
    if (this.literal !== undefined) {
      const { literal } = this;
      if (waiting.length < literal) return 0;
      this.line.text += `{${this.line.literals.length}}`;
      this.line.literals.push(Buffer.from(waiting.subarray(0, literal)));
      this.literal = undefined;
      // an empty literal counts as taken, too
      return literal === 0 ? this.take(waiting, lines) : literal;
    }
    const end = waiting.indexOf('\r\n');
    if (end < 0) return 0;
    const text = waiting.toString('utf8', 0, end);
    const announced = /\{(\d+)(\+?)\}$/.exec(text);
    this.line.text += announced ? text.slice(0, announced.index) : text;
    if (!announced) {
      lines.push(this.line);
      this.line = { text: '', literals: [] };
    } else if (announced[2] || this.mayCome(Number(announced[1]), this.line.text)) this.literal = Number(announced[1]);
    else this.line = { text: '', literals: [] };
    return end + 2;
  }
}

/** Splits a line into tag, name and arguments. */
export function parseCommand({ text, literals }: Line): Command {
  const [tag = '', ...rest] = parseArgs(text, literals);
  const words = rest.map(String);
  const isUid = words[0]?.toUpperCase() === 'UID';
  const name = words.slice(0, isUid ? 2 : 1).join(' ');
  return { tag: String(tag), name: name.toUpperCase(), args: rest.slice(isUid ? 2 : 1) };
}

/** An atom may contain a section in brackets, with spaces and lists: `BODY.PEEK[HEADER.FIELDS (SUBJECT)]<0.9>`. */
const TOKEN = /\s*(?:(\()|(\))|"((?:[^"\\]|\\.)*)"|\{(\d+)\}|((?:\[[^\]]*\]|[^\s()"[{])+))/gy;

/** Parses arguments; literals are decoded as latin1. */
function parseArgs(text: string, literals: Buffer[]): Arg[] {
  const root: Arg[] = [];
  const stack: Arg[][] = [root];
  for (const [, open, close, string, literal, atom] of text.matchAll(TOKEN)) {
    const list = stack.at(-1) as Arg[];
    if (open) {
      const inner: Arg[] = [];
      list.push(inner);
      stack.push(inner);
    } else if (close) stack.pop();
    else if (literal) list.push(literals[Number(literal)]?.toString('latin1') ?? '');
    else list.push(atom ?? (string ?? '').replace(/\\(.)/g, '$1'));
  }
  return root;
}

/** A quoted string of RFC 3501. */
export function quoted(text: string): string {
  return `"${text.replace(/["\\]/g, '\\$&')}"`;
}

/** Whether a number is in a sequence set such as `1:3,7:*`; `*` is the largest number in use. */
export function inSet(set: string, number: number, largest: number): boolean {
  return set.split(',').some((part) => {
    const [from = 0, to = from] = part.split(':').map((end) => (end === '*' ? largest : Number(end)));
    return number >= Math.min(from, to) && number <= Math.max(from, to);
  });
}

/** INTERNALDATE as written in an answer. */
export function internalDate(date: Date): string {
  const [, day, month, year, time] = date.toUTCString().split(' ');
  return `"${day}-${month}-${year} ${time} +0000"`;
}

/** The named header fields of a message, as BODY[HEADER.FIELDS …] returns them. */
export function headerFields(source: Buffer, names: string[]): Buffer {
  const text = source.toString('latin1');
  const end = text.indexOf('\r\n\r\n');
  const fields = text.slice(0, end < 0 ? undefined : end + 2).split(/\r\n(?![ \t])/);
  const wanted = fields.filter((field) =>
    names.some((name) => field.toLowerCase().startsWith(`${name.toLowerCase()}:`)),
  );
  return Buffer.from([...wanted, '', ''].join('\r\n'), 'latin1');
}
