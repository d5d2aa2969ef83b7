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
  /** it holds something else besides that is no file: an embedded message, an OLE object, properties that cannot be read */
  hasMore: boolean;
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

const MAX_ATTRIBUTES = 20_000;
const MAX_FILES = 500;
const MAX_PROPERTIES = 2_000;
const MAX_DEPTH = 4;
const MAX_TEXT = 2_000;

const LONG_NAME = 0x3707;
const SHORT_NAME = 0x3704;
const DISPLAY_NAME = 0x3001;
const MIME_TAG = 0x370e;
const CONTENT_ID = 0x3712;
const DATA_PROPERTY = 0x3701;

/** Thrown within this file: it is no TNEF, or a broken one. */
class Broken extends Error {}

/** The files in a TNEF; null when it is none, or broken. */
export function readTnef(source: RandomAccess): TnefFiles | null {
  try {
    return new TnefReader(source, { at: 0, size: source.size }, 0).read();
  } catch (error) {
    if (error instanceof Broken) return null;
    throw error;
  }
}

interface Range {
  at: number;
  size: number;
}

/** An attachment as it is read. */
interface Attachment {
  title: string | null;
  texts: Map<number, string>;
  data: Range | null;
  /** an embedded message or object */
  object: Range | null;
}

class TnefReader {
  private readonly source: RandomAccess;
  private readonly range: Range;
  private readonly depth: number;
  private codepage = 'cp1252';
  private hasMore = false;

  constructor(source: RandomAccess, range: Range, depth: number) {
    this.source = source;
    this.range = range;
    this.depth = depth;
  }

  read(): TnefFiles {
    const end = this.range.at + this.range.size;
    if (this.range.size < HEAD_BYTES || this.bytes(this.range.at, 4).readUInt32LE() !== SIGNATURE) throw new Broken();
    const attachments: Attachment[] = [];
    let at = this.range.at + HEAD_BYTES;
    for (let count = 0; at < end; count++) {
      if (count >= MAX_ATTRIBUTES || attachments.length > MAX_FILES) throw new Broken();
      // some writers pad the end
      if (end - at < ATTRIBUTE_HEAD) break;
      const head = this.bytes(at, ATTRIBUTE_HEAD);
      const value = { at: at + ATTRIBUTE_HEAD, size: head.readUInt32LE(5) };
      at = value.at + value.size + CHECKSUM;
      // the last checksum is missing now and then
      if (at - CHECKSUM > end || (head[0] !== 1 && head[0] !== 2)) throw new Broken();
      this.take(head.readUInt32LE(1), value, attachments);
    }
    return this.filesOf(attachments);
  }

  private take(attribute: number, value: Range, attachments: Attachment[]): void {
    if (attribute === CODEPAGE && value.size >= 4) {
      this.codepage = `cp${this.bytes(value.at, 4).readUInt32LE()}`;
    }
    if (attribute === RENDERING) attachments.push({ title: null, texts: new Map(), data: null, object: null });
    const last = attachments.at(-1);
    if (!last) return;
    if (attribute === TITLE) last.title = this.text(value);
    if (attribute === DATA) last.data = value;
    if (attribute === PROPERTIES) this.tryProperties(value, last);
  }

  private filesOf(attachments: readonly Attachment[]): TnefFiles {
    const found: TnefFiles = { files: [], hasMore: this.hasMore };
    for (const { title, texts, data, object } of attachments) {
      const name = texts.get(LONG_NAME) ?? texts.get(DISPLAY_NAME) ?? title ?? texts.get(SHORT_NAME) ?? null;
      if (object) {
        found.hasMore = true;
        found.files.push(...this.filesWithin(object));
      } else if (data) {
        found.files.push({ name, mime: texts.get(MIME_TAG) ?? null, cid: texts.get(CONTENT_ID) ?? null, ...data });
      }
      if (found.files.length > MAX_FILES) throw new Broken();
    }
    return found;
  }

  /** The files of an embedded message; none of another object. */
  private filesWithin(object: Range): TnefFile[] {
    if (this.depth >= MAX_DEPTH) return [];
    try {
      return new TnefReader(this.source, object, this.depth + 1).read().files;
    } catch (error) {
      if (error instanceof Broken) return [];
      throw error;
    }
  }

  /** Properties that cannot be read leave the file, by its short name. */
  private tryProperties(range: Range, attachment: Attachment): void {
    try {
      this.readProperties(range, attachment);
    } catch (error) {
      if (!(error instanceof Broken)) throw error;
      this.hasMore = true;
    }
  }

  private readProperties(range: Range, attachment: Attachment): void {
    const end = range.at + range.size;
    let at = range.at + 4;
    const count = this.within(range.at, 4, end).readUInt32LE();
    if (count > MAX_PROPERTIES) throw new Broken();
    for (let n = 0; n < count; n++) {
      const head = this.within(at, 4, end);
      const [type, id] = [head.readUInt16LE(0), head.readUInt16LE(2)];
      at += 4 + (id >= 0x8000 ? this.sizeOfName(at + 4, end) : 0);
      at = this.readValue({ type, id }, at, { end, attachment });
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
    { end, attachment }: { end: number; attachment: Attachment },
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
      if (n === 0) this.takeProperty(id, base, { value, attachment });
    }
    return next;
  }

  private takeProperty(
    id: number,
    type: number,
    { value, attachment }: { value: Range; attachment: Attachment },
  ): void {
    if (NAMED.has(id) && (type === 0x1e || type === 0x1f)) {
      const text = this.text(value, type === 0x1f ? 'utf-16le' : this.codepage);
      if (text !== null) attachment.texts.set(id, text);
    }
    // after the 16 bytes that say what it is
    if (id === DATA_PROPERTY && type === 0x0d && value.size > 16) {
      attachment.object = { at: value.at + 16, size: value.size - 16 };
    }
    if (id === DATA_PROPERTY && type === 0x102) attachment.data ??= value;
  }

  private text(value: Range, charset = this.codepage): string | null {
    const bytes = this.bytes(value.at, Math.min(value.size, MAX_TEXT));
    const text = charset === 'utf-16le' ? bytes.toString('utf16le') : decodeBytes(bytes, charset);
    return text.replace(/\0[\s\S]*$/, '').trim() || null;
  }

  private bytes(at: number, length: number): Buffer {
    return this.within(at, length, this.range.at + this.range.size);
  }

  private within(at: number, length: number, end: number): Buffer {
    this.inside(at + length, end);
    const bytes = this.source.read(at, length);
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
const VARIABLE = new Set([0x1e, 0x1f, 0x0d, 0x102]);
const NAMED = new Set([LONG_NAME, SHORT_NAME, DISPLAY_NAME, MIME_TAG, CONTENT_ID]);
