/** One argument of a command: an atom or string as text, or a list of them. */
export type Arg = string | Arg[];

/** A command as the client sent it. */
export interface Command {
  tag: string;
  /** upper case, with UID before it where that was sent */
  name: string;
  args: Arg[];
}

/** Takes whole commands off the front of what has come in; literals count as quoted strings. */
export class CommandReader {
  private waiting = Buffer.alloc(0);
  private readonly askForMore: () => void;

  constructor(askForMore: () => void) {
    this.askForMore = askForMore;
  }

  read(chunk: Buffer): string[] {
    this.waiting = Buffer.concat([this.waiting, chunk]);
    const lines: string[] = [];
    for (let line = this.next(); line !== undefined; line = this.next()) lines.push(line);
    return lines;
  }

  private asked = 0;

  private next(): string | undefined {
    let line = '';
    for (let at = 0; ; ) {
      const end = this.waiting.indexOf('\r\n', at);
      if (end < 0) return undefined;
      const text = this.waiting.toString('utf8', at, end);
      const literal = /\{(\d+)(\+?)\}$/.exec(text);
      if (!literal) {
        this.waiting = this.waiting.subarray(end + 2);
        this.asked = 0;
        return line + text;
      }
      if (!literal[2] && this.asked <= at) {
        this.asked = end + 2;
        this.askForMore();
      }
      const from = end + 2;
      at = from + Number(literal[1]);
      if (this.waiting.length < at) return undefined;
      line += `${text.slice(0, literal.index)}${quoted(this.waiting.toString('utf8', from, at))}`;
    }
  }
}

/** Splits a line into tag, name and arguments. */
export function parseCommand(line: string): Command {
  const [tag = '', ...rest] = parseArgs(line);
  const words = rest.map(String);
  const isUid = words[0]?.toUpperCase() === 'UID';
  const name = words.slice(0, isUid ? 2 : 1).join(' ');
  return { tag: String(tag), name: name.toUpperCase(), args: rest.slice(isUid ? 2 : 1) };
}

/** An atom may hold a section in brackets, with spaces and lists in it, as `BODY.PEEK[HEADER.FIELDS (SUBJECT)]<0.9>`. */
const TOKEN = /\s*(?:(\()|(\))|"((?:[^"\\]|\\.)*)"|((?:\[[^\]]*\]|[^\s()"[])+))/gy;

function parseArgs(text: string): Arg[] {
  const root: Arg[] = [];
  const stack: Arg[][] = [root];
  for (const [, open, close, string, atom] of text.matchAll(TOKEN)) {
    const list = stack.at(-1) as Arg[];
    if (open) {
      const inner: Arg[] = [];
      list.push(inner);
      stack.push(inner);
    } else if (close) stack.pop();
    else list.push(atom ?? (string ?? '').replace(/\\(.)/g, '$1'));
  }
  return root;
}

/** A quoted string of RFC 3501. */
export function quoted(text: string): string {
  return `"${text.replace(/["\\]/g, '\\$&')}"`;
}

/** Whether a number lies in a sequence set such as `1:3,7:*`; `*` is the largest number in use. */
export function inSet(set: string, number: number, largest: number): boolean {
  return set.split(',').some((part) => {
    const [from = 0, to = from] = part.split(':').map((end) => (end === '*' ? largest : Number(end)));
    return number >= Math.min(from, to) && number <= Math.max(from, to);
  });
}

/** INTERNALDATE as it stands in an answer. */
export function internalDate(date: Date): string {
  const [, day, month, year, time] = date.toUTCString().split(' ');
  return `"${day}-${month}-${year} ${time} +0000"`;
}

/** The named header fields of a message, as BODY[HEADER.FIELDS …] gives them. */
export function headerFields(source: Buffer, names: string[]): Buffer {
  const text = source.toString('latin1');
  const end = text.indexOf('\r\n\r\n');
  const fields = text.slice(0, end < 0 ? undefined : end + 2).split(/\r\n(?![ \t])/);
  const wanted = fields.filter((field) =>
    names.some((name) => field.toLowerCase().startsWith(`${name.toLowerCase()}:`)),
  );
  return Buffer.from([...wanted, '', ''].join('\r\n'), 'latin1');
}
