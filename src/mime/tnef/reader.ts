import { ANSI, decodeText } from './text.ts';
import type { RandomAccess, TnefContents, TnefFile, TnefLimits } from './types.ts';

const SIGNATURE = 0x223e9f78;
const HEAD_BYTES = 6;
const ATTRIBUTE_HEAD = 9;
const CHECKSUM = 2;
const RENDERING = 0x00069002;
const TITLE = 0x00018010;
const DATA = 0x0006800f;
const PROPERTIES = 0x00069005;
const CODEPAGE = 0x00069007;
const BODY = 0x0002800c;
const MESSAGE_PROPERTIES = 0x00069003;

const MAX_ATTRIBUTES = 20_000;
const MAX_FILES = 500;
const MAX_PROPERTIES = 2_000;
const MAX_DEPTH = 4;
/** Bytes of the longest name. */
const MAX_NAME = 2_000;
/** Bytes of the longest text, unless the caller sets a limit. */
const MAX_BODY = 1024 * 1024;
/** Reads of a whole TNEF; a valid one needs some ten for each file. */
const MAX_READS = 200_000;
/** Reads between two checks of the time. */
const READS_BETWEEN = 256;

const LONG_NAME = 0x3707;
const SHORT_NAME = 0x3704;
const DISPLAY_NAME = 0x3001;
const MIME_TAG = 0x370e;
const CONTENT_ID = 0x3712;
const DATA_PROPERTY = 0x3701;
const PLAIN_BODY = 0x1000;
const RTF_BODY = 0x1009;
const HTML_BODY = 0x1013;

const STRING8 = 0x1e;
const UNICODE = 0x1f;
const OBJECT = 0x0d;
const BINARY = 0x102;

/** Thrown within this file: not a TNEF, or broken, or too costly. */
class Broken extends Error {}

/**
 * Reads a TNEF; null when the bytes are not one, or it is broken, too costly or has too many files, or the time is up.
 * @throws errors of the source
 */
export function readTnef(
  source: RandomAccess,
  { maxFiles = MAX_FILES, maxText = MAX_BODY, isTimeUp = () => false }: TnefLimits = {},
): TnefContents | null {
  let reads = 0;
  const counted = {
    size: source.size,
    read: (at: number, length: number): Buffer => {
      reads += 1;
      if (reads % READS_BETWEEN === 0 && isTimeUp()) reads = MAX_READS;
      if (reads > MAX_READS) throw new Broken();
      return source.read(at, length);
    },
  };
  const context = { source: counted, maxFiles: Math.min(maxFiles, MAX_FILES), maxText };
  try {
    return new TnefReader(context, { at: 0, size: source.size }, 0).read();
  } catch (error) {
    if (error instanceof Broken) return null;
    throw error;
  }
}

/** Shared by all readers of a TNEF and of the messages in it. */
interface Context {
  source: RandomAccess;
  maxFiles: number;
  maxText: number;
}

interface Range {
  at: number;
  size: number;
}

interface Text extends Range {
  charset: string;
}

/** An attachment as it is read: only the ranges of its values. */
interface Attachment {
  title: Text | null;
  texts: Map<number, Text>;
  data: Range | null;
  /** an embedded message or object */
  object: Range | null;
}

/** Receives one property. */
type TakeProperty = (id: number, type: number, value: Range) => void;

class TnefReader {
  private readonly context: Context;
  private readonly range: Range;
  private readonly depth: number;
  private codepage = ANSI;
  private hasMore = false;
  private hasText = false;
  private plain: Text | null = null;

  constructor(context: Context, range: Range, depth: number) {
    this.context = context;
    this.range = range;
    this.depth = depth;
  }

  read(): TnefContents {
    const end = this.range.at + this.range.size;
    if (this.range.size < HEAD_BYTES || this.bytes(this.range.at, 4).readUInt32LE() !== SIGNATURE) throw new Broken();
    const attachments: Attachment[] = [];
    let at = this.range.at + HEAD_BYTES;
    for (let count = 0; at < end; count++) {
      if (count >= MAX_ATTRIBUTES || attachments.length > this.context.maxFiles) throw new Broken();
      // some writers pad the end
      if (end - at < ATTRIBUTE_HEAD) break;
      const head = this.bytes(at, ATTRIBUTE_HEAD);
      const value = { at: at + ATTRIBUTE_HEAD, size: head.readUInt32LE(5) };
      at = value.at + value.size + CHECKSUM;
      // the last checksum is sometimes missing
      if (at - CHECKSUM > end || (head[0] !== 1 && head[0] !== 2)) throw new Broken();
      const attribute = head.readUInt32LE(1);
      this.takeOfMessage(attribute, value);
      this.take(attribute, value, attachments);
    }
    return this.filesOf(attachments);
  }

  private takeOfMessage(attribute: number, value: Range): void {
    if (attribute === CODEPAGE && value.size >= 4) {
      this.codepage = `cp${this.bytes(value.at, 4).readUInt32LE()}`;
    }
    // an embedded message is not split
    if (this.depth > 0) return;
    if (attribute === BODY) this.takeText(value, this.codepage);
    // the content of unreadable ones is unknown
    if (attribute === MESSAGE_PROPERTIES && !this.tryProperties(value, this.takeBody)) this.hasText = true;
  }

  private take(attribute: number, value: Range, attachments: Attachment[]): void {
    if (attribute === RENDERING) attachments.push({ title: null, texts: new Map(), data: null, object: null });
    if (attribute !== TITLE && attribute !== DATA && attribute !== PROPERTIES) return;
    const last = attachments.at(-1);
    // a file without a beginning, and one that replaces another
    if (!last || (attribute === DATA && last.data)) {
      this.hasMore = true;
      return;
    }
    if (attribute === TITLE) last.title = { ...value, charset: this.codepage };
    if (attribute === DATA) last.data = value;
    if (attribute === PROPERTIES) {
      const isRead = this.tryProperties(value, (id, type, each) => this.takeProperty(last, { id, type, value: each }));
      if (!isRead) this.hasMore = true;
    }
  }

  private filesOf(attachments: readonly Attachment[]): TnefContents {
    const files: TnefFile[] = [];
    for (const { title, texts, data, object } of attachments) {
      if (object) {
        this.hasMore = true;
        for (const file of this.filesWithin(object)) files.push(file);
      } else if (data) {
        const named = [texts.get(LONG_NAME), texts.get(DISPLAY_NAME), title, texts.get(SHORT_NAME)];
        const name = this.firstText(named);
        const [mime, cid] = [this.firstText([texts.get(MIME_TAG)]), this.firstText([texts.get(CONTENT_ID)])];
        files.push({ name, mime, cid, ...data });
      } else this.hasMore = true;
      if (files.length > this.context.maxFiles) throw new Broken();
    }
    return { files, hasMore: this.hasMore, hasText: this.hasText, text: this.plainText() };
  }

  /** The files of an embedded message; none for other objects. */
  private filesWithin(object: Range): TnefFile[] {
    if (this.depth >= MAX_DEPTH) return [];
    try {
      return new TnefReader(this.context, object, this.depth + 1).read().files;
    } catch (error) {
      if (error instanceof Broken) return [];
      throw error;
    }
  }

  /** Reads properties; false when they cannot be read: an attachment then has only its short name. */
  private tryProperties(range: Range, take: TakeProperty): boolean {
    try {
      this.readProperties(range, take);
      return true;
    } catch (error) {
      if (!(error instanceof Broken)) throw error;
      return false;
    }
  }

  private readProperties(range: Range, take: TakeProperty): void {
    const end = range.at + range.size;
    let at = range.at + 4;
    const count = this.within(range.at, 4, end).readUInt32LE();
    if (count > MAX_PROPERTIES) throw new Broken();
    for (let n = 0; n < count; n++) {
      const head = this.within(at, 4, end);
      const [type, id] = [head.readUInt16LE(0), head.readUInt16LE(2)];
      at += 4 + (id >= 0x8000 ? this.sizeOfName(at + 4, end) : 0);
      at = this.readValue({ type, id }, at, { end, take });
    }
  }

  /** The size of the name that a named property has before its value. */
  private sizeOfName(at: number, end: number): number {
    const kind = this.within(at + 16, 4, end).readUInt32LE();
    if (kind === 0) return 24;
    return 24 + padded(this.within(at + 20, 4, end).readUInt32LE());
  }

  /** Reads one property; returns where the next one begins. */
  private readValue(
    { type, id }: { type: number; id: number },
    at: number,
    { end, take }: { end: number; take: TakeProperty },
  ): number {
    const isMany = (type & 0x1000) !== 0;
    const base = type & 0xfff;
    const fixed = FIXED[base];
    if (fixed !== undefined) {
      const count = isMany ? this.within(at, 4, end).readUInt32LE() : 1;
      return this.inside(at + (isMany ? 4 : 0) + count * fixed, end);
    }
    if (!VARIABLE.has(base)) throw new Broken();
    const count = this.within(at, 4, end).readUInt32LE();
    if (count > MAX_PROPERTIES) throw new Broken();
    let next = at + 4;
    for (let n = 0; n < count; n++) {
      const value = { at: next + 4, size: this.within(next, 4, end).readUInt32LE() };
      next = this.inside(value.at + padded(value.size), end);
      if (n === 0) take(id, base, value);
    }
    return next;
  }

  private takeProperty(attachment: Attachment, { id, type, value }: { id: number; type: number; value: Range }): void {
    if (NAMED.has(id) && (type === STRING8 || type === UNICODE)) {
      attachment.texts.set(id, { ...value, charset: this.charsetOf(type) });
    }
    // after the 16 bytes of the interface id
    if (id === DATA_PROPERTY && type === OBJECT && value.size > 16) {
      attachment.object = { at: value.at + 16, size: value.size - 16 };
    }
    if (id === DATA_PROPERTY && type === BINARY) attachment.data ??= value;
  }

  private readonly takeBody: TakeProperty = (id, type, value) => {
    if (id === PLAIN_BODY && (type === STRING8 || type === UNICODE)) this.takeText(value, this.charsetOf(type));
    if ((id === RTF_BODY || id === HTML_BODY) && value.size > 0) this.hasText = true;
  };

  private takeText(value: Range, charset: string): void {
    if (value.size === 0) return;
    this.hasText = true;
    this.plain ??= { ...value, charset };
  }

  private plainText(): string | null {
    const { plain } = this;
    if (!plain || plain.size > this.context.maxText) return null;
    return decodeText(this.bytes(plain.at, plain.size), plain.charset);
  }

  private charsetOf(type: number): string {
    return type === UNICODE ? 'utf-16le' : this.codepage;
  }

  /** The first non-empty text. */
  private firstText(places: readonly (Text | null | undefined)[]): string | null {
    for (const place of places) {
      if (!place) continue;
      const text = decodeText(this.bytes(place.at, Math.min(place.size, MAX_NAME)), place.charset).trim();
      if (text !== '') return text;
    }
    return null;
  }

  private bytes(at: number, length: number): Buffer {
    return this.within(at, length, this.range.at + this.range.size);
  }

  private within(at: number, length: number, end: number): Buffer {
    this.inside(at + length, end);
    const bytes = this.context.source.read(at, length);
    if (bytes.length < length) throw new Broken();
    return bytes;
  }

  private inside(at: number, end: number): number {
    if (at > end) throw new Broken();
    return at;
  }
}

const padded = (size: number): number => Math.ceil(size / 4) * 4;

/** Bytes of a property's value by its type, padded to four. */
const FIXED: Readonly<Record<number, number>> = {
  ...{ 0x01: 0, 0x02: 4, 0x03: 4, 0x04: 4, 0x05: 8, 0x06: 8, 0x07: 8, 0x0a: 4, 0x0b: 4, 0x14: 8, 0x40: 8, 0x48: 16 },
};
const VARIABLE = new Set([STRING8, UNICODE, OBJECT, BINARY]);
const NAMED = new Set([LONG_NAME, SHORT_NAME, DISPLAY_NAME, MIME_TAG, CONTENT_ID]);
