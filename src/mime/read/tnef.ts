import { decodeBytes } from './charsets.ts';

/*
 * The attachments of a winmail.dat (MS-OXTNEF): a stream of attributes, in which attAttachRenddata begins each attachment;
 * its properties (MS-OXCDATA 2.11) are in attAttachment. Only places are noted here, and names read: what the file claims
 * of lengths and counts costs nothing, and whatever does not fit makes it no TNEF.
 */

/** Bytes that are read where they are needed. */
export interface RandomAccess {
  size: number;
  /** fewer bytes at the end */
  read(at: number, length: number): Buffer;
}

export interface TnefFile {
  /** the long name, else the short one */
  name: string | null;
  mime: string | null;
  cid: string | null;
  /** where its bytes are */
  at: number;
  size: number;
}

export interface TnefFiles {
  files: TnefFile[];
  /**
   * it holds something else besides that is no file: an embedded message, an OLE object, a file that is elsewhere, properties
   * that cannot be read
   */
  hasMore: boolean;
  /** it has a text of the message, in any format */
  hasText: boolean;
  /** where that text is as plain text */
  text: TnefText | null;
}

/** A text in a TNEF. */
export interface TnefText {
  at: number;
  size: number;
  charset: string;
}

export interface TnefLimits {
  /** one with more files is not read */
  maxFiles: number;
  /** asked now and then; true: stop reading */
  isTimeUp: () => boolean;
}

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
const MAX_TEXT = 2_000;
/** Of a whole TNEF: one without defects has some ten for each file. */
const MAX_READS = 200_000;
/** How often the time is looked at. */
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

/** Text in bytes whose code page is none. */
const ANSI = 'cp1252';

/** Thrown within this file: it is no TNEF, or a broken one, or it costs too much. */
class Broken extends Error {}

/** The files in a TNEF; null when it is none, or broken, or has too many, or the time is up. */
export function readTnef(
  source: RandomAccess,
  { maxFiles, isTimeUp }: TnefLimits = { maxFiles: MAX_FILES, isTimeUp: () => false },
): TnefFiles | null {
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
  const context = { source: counted, maxFiles: Math.min(maxFiles, MAX_FILES) };
  try {
    return new TnefReader(context, { at: 0, size: source.size }, 0).read();
  } catch (error) {
    if (error instanceof Broken) return null;
    throw error;
  }
}

interface Range {
  at: number;
  size: number;
}

/** An attachment as it is read: only the places of what it says. */
interface Attachment {
  title: TnefText | null;
  texts: Map<number, TnefText>;
  data: Range | null;
  /** an embedded message or object */
  object: Range | null;
}

/** Takes one property. */
type TakeProperty = (id: number, type: number, value: Range) => void;

class TnefReader {
  private readonly context: { source: RandomAccess; maxFiles: number };
  private readonly range: Range;
  private readonly depth: number;
  private codepage = ANSI;
  private hasMore = false;
  private hasText = false;
  private plain: TnefText | null = null;

  constructor(context: { source: RandomAccess; maxFiles: number }, range: Range, depth: number) {
    this.context = context;
    this.range = range;
    this.depth = depth;
  }

  read(): TnefFiles {
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
      // the last checksum is missing now and then
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
    // an embedded message stays whole
    if (this.depth > 0) return;
    if (attribute === BODY) this.takeText(value, this.codepage);
    // nobody knows what is in those that cannot be read
    if (attribute === MESSAGE_PROPERTIES && !this.tryProperties(value, this.takeBody)) this.hasText = true;
  }

  private take(attribute: number, value: Range, attachments: Attachment[]): void {
    if (attribute === RENDERING) attachments.push({ title: null, texts: new Map(), data: null, object: null });
    if (attribute !== TITLE && attribute !== DATA && attribute !== PROPERTIES) return;
    const last = attachments.at(-1);
    // a file that nothing begins, and one in the place of another
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

  private filesOf(attachments: readonly Attachment[]): TnefFiles {
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
    return { files, hasMore: this.hasMore, hasText: this.hasText, text: this.plain };
  }

  /** The files of an embedded message; none of another object. */
  private filesWithin(object: Range): TnefFile[] {
    if (this.depth >= MAX_DEPTH) return [];
    try {
      return new TnefReader(this.context, object, this.depth + 1).read().files;
    } catch (error) {
      if (error instanceof Broken) return [];
      throw error;
    }
  }

  /** False where they cannot be read: an attachment is left with its short name. */
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

  /** What a property with a name of its own has before its value. */
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
    // after the 16 bytes that say what it is
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

  private charsetOf(type: number): string {
    return type === UNICODE ? 'utf-16le' : this.codepage;
  }

  /** The first that is not empty. */
  private firstText(places: readonly (TnefText | null | undefined)[]): string | null {
    for (const place of places) {
      if (!place) continue;
      const text = decodeTnefText(this.bytes(place.at, Math.min(place.size, MAX_TEXT)), place.charset).trim();
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

/** A text of a TNEF, up to its U+0000. In a code page that is none it is UTF-8 or Windows-1252: no detector is asked. */
export function decodeTnefText(bytes: Buffer, charset: string): string {
  const text = charset === 'utf-16le' ? bytes.toString('utf16le') : decodeBytes(bytes, charset, ANSI);
  const end = text.indexOf('\0');
  return end < 0 ? text : text.slice(0, end);
}

const padded = (size: number): number => Math.ceil(size / 4) * 4;

/** Bytes of a property's value by its type, padded to four. */
const FIXED: Readonly<Record<number, number>> = {
  ...{ 0x01: 0, 0x02: 4, 0x03: 4, 0x04: 4, 0x05: 8, 0x06: 8, 0x07: 8, 0x0a: 4, 0x0b: 4, 0x14: 8, 0x40: 8, 0x48: 16 },
};
const VARIABLE = new Set([STRING8, UNICODE, OBJECT, BINARY]);
const NAMED = new Set([LONG_NAME, SHORT_NAME, DISPLAY_NAME, MIME_TAG, CONTENT_ID]);
