import { type FieldValue, readEncoding, readFieldValue, type TransferEncoding } from './field-value.ts';
import { splitHeader } from './headers.ts';
import type { RawHeader } from './raw-header.ts';
import { after, beforeBreak, heldBack, lineAt, nextKnownField } from './line-search.ts';

/*
 * The MIME structure of a message (RFC 2046 5.1), found in one pass over its bytes. Real mail breaks the rules, and no text
 * or file may be lost: a delimiter may end in white space; the delimiter of any open multipart ends all entities open
 * within it; a multipart that names no boundary, or one that does not occur, adopts the first line that looks like a
 * delimiter; parts that follow a closing delimiter still count; a header may end without its empty line.
 */

/** A node of the structure: the message itself, a multipart or a leaf. Embedded messages are leaves. */
export interface Entity {
  parent: Entity | null;
  fields: RawHeader[];
  /** Content-Type as written; '' when missing */
  declared: string;
  type: FieldValue;
  disposition: FieldValue;
  encoding: TransferEncoding;
  isMultipart: boolean;
  /** parts that began in it */
  parts: number;
  /** number of parts of its parent before it */
  index: number;
}

export interface StructureSink {
  /** the header of an entity has been read; false: read no further */
  entity(entity: Entity): boolean;
  /** content of a leaf, as sent, without the line break before the delimiter */
  body(bytes: Buffer, leaf: Entity): void;
  /** a leaf or a multipart has ended */
  end(entity: Entity): void;
  /** content of a multipart outside of its parts */
  outside(bytes: Buffer, multipart: Entity): void;
}

interface Level {
  entity: Entity;
  boundaries: string[];
  state: 'before' | 'inside' | 'after';
}

interface Delimiter {
  level: number;
  closes: boolean;
}

const NOTHING = Buffer.alloc(0);
const MAX_HEAD = 4 * 1024 * 1024;
const MAX_HEADS = 8 * 1024 * 1024;
const MAX_DEPTH = 10_000;
/** Longer lines are not delimiters: RFC 2046 allows 70 characters. */
const MAX_BOUNDARY = 1000;
/** Where in a line a boundary with text behind it may end, at most. */
const MAX_MARKS = 16;
const FIELD = /^[!-9;-~\x80-\xff]{1,998}[ \t]*:(?!\/\/)/;
const FOLD = /^[ \t]/;
/** The decision needs more bytes. */
const MORE = Symbol('more');

/** Reads the structure of one message. `isCut` when a header was larger than the limits allow, or a sink stopped it. */
export class StructureReader {
  isCut = false;
  private readonly sink: StructureSink;
  private carry: Buffer = NOTHING;
  private mode: 'header' | 'body' = 'header';
  private lines: string[] = [];
  private lineBytes = 0;
  private headBytes = 0;
  private readonly levels: Level[] = [];
  private readonly open = new Map<string, number[]>();
  private leaf: Entity | null = null;
  private hasRoot = false;
  /** no content has been read since the last header or delimiter */
  private isFresh = true;
  /** where in the bytes at hand a known field begins, before the next empty line; -1: not searched yet */
  private fieldAt = -1;
  /** how many open boundaries begin with each byte: a cheap test of lines that begin with two dashes */
  private readonly firstBytes = new Uint16Array(256);

  constructor(sink: StructureSink) {
    this.sink = sink;
  }

  /** The next bytes of the message. */
  write(chunk: Buffer): void {
    this.read(this.carry.length > 0 ? Buffer.concat([this.carry, chunk]) : chunk, false);
  }

  /** The message has ended. */
  end(): void {
    if (!this.isCut) this.read(this.carry, true);
    if (!this.hasRoot || (this.mode === 'header' && this.lines.length > 0 && !this.isCut)) this.finishHeader();
    this.closeAbove(0);
  }

  private read(data: Buffer, isLast: boolean): void {
    let at = 0;
    this.fieldAt = -1;
    while (!this.isCut && at < data.length) {
      const next = this.mode === 'header' ? this.readHeaderLine(data, at, isLast) : this.readBody(data, at, isLast);
      if (next === MORE) break;
      at = next;
    }
    this.carry = this.isCut ? NOTHING : data.subarray(at);
    if (this.mode === 'header' && this.carry.length > MAX_HEAD) this.cut();
  }

  private cut(): void {
    this.isCut = true;
    this.carry = NOTHING;
  }

  // Header

  /** Before the first field of the message. */
  private get isAtStart(): boolean {
    return !this.hasRoot && this.lines.length === 0;
  }

  private readHeaderLine(data: Buffer, at: number, isLast: boolean): number | typeof MORE {
    const line = lineAt(data, at, isLast);
    if (line === null) return MORE;
    const { text, end } = line;
    if (text === '' || (this.isAtStart && text.trim() === '')) return this.readBlank(data, { at, end, isLast });
    const found = this.delimiterInHeader(text, data, { at: end, isLast });
    if (found === MORE) return MORE;
    if (found) {
      if (this.lines.length > 0) this.finishHeader();
      else this.mode = 'body';
      return at;
    }
    return this.readField(data, { text, at, end });
  }

  /** Handles a delimiter that ends a header. */
  private delimiterInHeader(
    text: string,
    data: Buffer,
    rest: { at: number; isLast: boolean },
  ): Delimiter | null | typeof MORE {
    if (!text.startsWith('--') || this.levels.length === 0) return null;
    return this.delimiterOf(text.slice(2, MAX_BOUNDARY + 6), data, rest);
  }

  private readField(data: Buffer, { text, at, end }: { text: string; at: number; end: number }): number {
    const isEnvelope = this.isAtStart && /^>?From (?![ \t]*:)/.test(text);
    if (isEnvelope) return end;
    const isIndented = this.isAtStart && FOLD.test(text) && FIELD.test(text.trimStart());
    if (isIndented || FIELD.test(text) || (FOLD.test(text) && this.lines.length > 0)) {
      this.lines.push(isIndented ? text.trimStart() : text);
      this.lineBytes += end - at;
      if (this.lineBytes > MAX_HEAD || this.headBytes + this.lineBytes > MAX_HEADS) this.cut();
      return end;
    }
    // Not a field, without an empty line before it: the text begins here, unless it is a stray line of the header.
    if (this.lines.length > 0) {
      if (this.fieldAt < end) this.fieldAt = nextKnownField(data, end, this.levels.length > 0);
      if (this.fieldAt >= end) return end;
    }
    this.finishHeader();
    return at;
  }

  /** Handles the empty line that ends a header; empty lines before the first field of a message do not count. */
  private readBlank(
    data: Buffer,
    { at, end, isLast }: { at: number; end: number; isLast: boolean },
  ): number | typeof MORE {
    if (this.isAtStart) {
      const next = lineAt(data, end, isLast);
      if (next === null && !isLast && end - at < MAX_HEAD) return MORE;
      if (next && (next.text.trim() === '' || FIELD.test(next.text.trimStart()))) return end;
    }
    this.finishHeader();
    return end;
  }

  private finishHeader(): void {
    const fields = splitHeader(this.lines.join('\n'));
    this.headBytes += this.lineBytes;
    this.lineBytes = 0;
    this.lines = [];
    const container = this.levels.at(-1);
    const entity = describe(fields, container?.entity ?? null);
    if (container) container.entity.parts += 1;
    this.hasRoot = true;
    this.mode = 'body';
    this.isFresh = true;
    this.leaf = null;
    if (!this.sink.entity(entity) || this.levels.length >= MAX_DEPTH) this.cut();
    else if (entity.isMultipart) this.openLevel(entity);
    else this.leaf = entity;
  }

  private openLevel(entity: Entity): void {
    const level: Level = { entity, boundaries: [], state: 'before' };
    this.levels.push(level);
    const declared = entity.type.params['boundary']?.trimEnd() ?? '';
    if (declared !== '' && declared.length <= MAX_BOUNDARY) this.addBoundary(level, declared);
  }

  private addBoundary(level: Level, boundary: string): void {
    if (!level.boundaries.includes(boundary)) level.boundaries.push(boundary);
    const others = this.open.get(boundary) ?? [];
    this.open.set(boundary, [...others, this.levels.indexOf(level)]);
    if (others.length === 0) this.countFirst(boundary, 1);
  }

  private dropBoundaries(level: Level): void {
    for (const boundary of level.boundaries) {
      const others = (this.open.get(boundary) ?? []).slice(0, -1);
      if (others.length > 0) this.open.set(boundary, others);
      else if (this.open.delete(boundary)) this.countFirst(boundary, -1);
    }
  }

  private countFirst(boundary: string, change: number): void {
    const byte = boundary.charCodeAt(0) & 0xff;
    this.firstBytes[byte] = (this.firstBytes[byte] ?? 0) + change;
  }

  // Body

  /** Delivers content up to the next delimiter, then skips the delimiter. */
  private readBody(data: Buffer, at: number, isLast: boolean): number | typeof MORE {
    if (this.levels.length === 0) {
      this.deliver(data.subarray(at));
      return data.length;
    }
    let search = at;
    for (;;) {
      const start =
        this.isFresh && search === at && data[at] === 0x2d && data[at + 1] === 0x2d ? at : after(data, search);
      if (start < 0) return this.deliverUpTo(data, at, isLast ? data.length : heldBack(data, at, this.isFresh));
      if (this.isNoDelimiter(data[start + 2])) {
        search = start + 2;
        continue;
      }
      const line = lineAt(data, start, isLast);
      if (line === null) {
        if (data.length - start <= MAX_BOUNDARY * 2) return this.deliverUpTo(data, at, beforeBreak(data, start, at));
        search = start + 2;
        continue;
      }
      const found = this.delimiterOf(line.text.slice(2, MAX_BOUNDARY + 6), data, { at: line.end, isLast });
      if (found === MORE) return this.deliverUpTo(data, at, beforeBreak(data, start, at));
      if (found === null) {
        search = start + 2;
        continue;
      }
      this.deliver(data.subarray(at, beforeBreak(data, start, at)));
      this.pass(found);
      return line.end;
    }
  }

  /** Whether the byte after the two dashes rules out a delimiter. */
  private isNoDelimiter(first: number | undefined): boolean {
    return this.leaf !== null && first !== undefined && this.firstBytes[first] === 0;
  }

  private deliverUpTo(data: Buffer, at: number, end: number): number | typeof MORE {
    if (end <= at) return MORE;
    this.deliver(data.subarray(at, end));
    this.isFresh = false;
    return end;
  }

  private deliver(bytes: Buffer): void {
    if (bytes.length === 0) return;
    const container = this.levels.at(-1);
    if (this.leaf) this.sink.body(bytes, this.leaf);
    else if (container) this.sink.outside(bytes, container.entity);
  }

  /** The delimiter in a line that begins with two dashes; null when it is content. The next line begins at `rest`. */
  private delimiterOf(
    text: string,
    data: Buffer,
    rest: { at: number; isLast: boolean },
  ): Delimiter | null | typeof MORE {
    const name = text.trimEnd();
    const exact = this.open.get(name)?.at(-1);
    if (exact !== undefined) return { level: exact, closes: false };
    const closed = name.endsWith('--') ? this.open.get(name.slice(0, -2))?.at(-1) : undefined;
    if (closed !== undefined) return { level: closed, closes: true };
    return this.withText(name) ?? this.adopted(name, data, rest);
  }

  /** A delimiter with text behind it in its line: an exact match is not required (RFC 2046 5.1.1). */
  private withText(name: string): Delimiter | null {
    let found: Delimiter | null = null;
    let position = 0;
    for (const { index, 0: mark } of name.matchAll(/--|[ \t]/g)) {
      if (++position > MAX_MARKS) break;
      const level = this.open.get(name.slice(0, index))?.at(-1);
      if (level !== undefined) found = { level, closes: mark === '--' };
    }
    return found;
  }

  /** A line that looks like a delimiter of a multipart whose boundary has not occurred, or which has been closed. */
  private adopted(name: string, data: Buffer, rest: { at: number; isLast: boolean }): Delimiter | null | typeof MORE {
    const top = this.levels.at(-1);
    if (!top || this.leaf || this.mode === 'header' || top.state === 'inside') return null;
    const isKnown = top.boundaries.includes(name);
    if (top.state === 'after' ? !isKnown : !/^[^\s"\\][^"\\]{0,199}$/.test(name)) return null;
    const next = lineAt(data, rest.at, rest.isLast);
    if (next === null && !rest.isLast) return data.length - rest.at > MAX_BOUNDARY ? null : MORE;
    if (!beginsPart(next?.text ?? '', top.boundaries.length > 0)) return null;
    this.addBoundary(top, name);
    return { level: this.levels.length - 1, closes: false };
  }

  private pass({ level, closes }: Delimiter): void {
    this.closeAbove(level + 1);
    const container = this.levels[level] as Level;
    if (this.leaf) this.sink.end(this.leaf);
    this.leaf = null;
    this.isFresh = true;
    if (!closes) {
      container.state = 'inside';
      this.mode = 'header';
      return;
    }
    container.state = 'after';
    this.dropBoundaries(container);
  }

  /** Ends the leaf, and the multiparts from that level on. */
  private closeAbove(level: number): void {
    if (this.levels.length > level || level === 0) {
      if (this.leaf) this.sink.end(this.leaf);
      this.leaf = null;
    }
    while (this.levels.length > level) {
      const last = this.levels.at(-1) as Level;
      if (last.state !== 'after') this.dropBoundaries(last);
      this.levels.pop();
      this.sink.end(last.entity);
    }
  }
}

/** Whether a line may start a part; `surely` where another boundary is declared. */
function beginsPart(line: string, surely: boolean): boolean {
  return /^content-[\w-]+[ \t]*:/i.test(line) || (!surely && (line === '' || FIELD.test(line)));
}

function describe(fields: RawHeader[], parent: Entity | null): Entity {
  const first = (key: string): string => fields.find((field) => field.key === key && field.raw !== '')?.raw ?? '';
  const declared = first('content-type');
  const type = readFieldValue(declared);
  return {
    parent,
    fields,
    declared,
    type,
    disposition: readFieldValue(first('content-disposition')),
    encoding: readEncoding(first('content-transfer-encoding')),
    isMultipart: type.value.startsWith('multipart/'),
    parts: 0,
    index: parent?.parts ?? 0,
  };
}
