import { randomUUID } from 'node:crypto';
import type { Headers } from 'mailparser';
import { readAddressFields } from './address-fields.ts';
import { isUsefulHint } from './charsets.ts';
import type { RawHeader } from './headers.ts';
import { createLineEndRepair } from './line-ends.ts';
import { isReadFailure, openSource, readStart } from './open-source.ts';
import { describePart, type Part } from './part.ts';
import { type Entity, StructureReader } from './structure.ts';
import { decodeBase64Text, decoderOf, type TransferDecoder } from './transfer-decoders.ts';

/*
 * The message as mailparser gets it: its files as the parts of one flat multipart, and its address fields on their own
 * (address-fields.ts). Its structure is read here (structure.ts), its texts are decoded here. Each difference from what mailparser would read itself is here
 * because of a test; test/mime/mailparser.test.ts also shows what mailparser alone makes of the mail.
 *
 *   mailparser alone                                here                    test
 *   takes the last From or Reply-To                 address-fields.ts       takes the last From
 *   reads raw 8-bit fields as UTF-8 only            address-fields.ts       reads names in raw 8 bits; knows no charset
 *   joins all texts, decodes them without a label   texts stay here         runs a text file into the body; reads text
 *     as UTF-8, flowed text without its quotes                                without a charset; joins flowed lines
 *   makes a file of a bogus Content-Type            part.ts                 makes a file of text
 *   reads parts of a digest as text                 part.ts                 reads the parts of a digest
 *   loses files at unusual delimiters               structure.ts            structure.test.ts
 *   holds every header in memory many times over    structure.ts            no more than 8 MB of headers
 *   parses nested groups in the square of time      address-fields.ts       parser.test.ts: groups within groups
 *   decodes quoted-printable in memory, and in      transfer-decoders.ts    text.test.ts: a long run of white space
 *     the square of a run of white space
 *   knows no uuencode                               transfer-decoders.ts    text.test.ts: transfer encodings
 */

export interface SourceLimits {
  /** asked between pieces of the message; true: stop reading */
  isTimeUp: () => boolean;
  /** read no more of the source */
  maxBytes?: number;
  /** bodies and files are left out */
  headerOnly?: boolean;
  /** bytes of text kept at most (default 16 MB) */
  maxText?: number;
}

/** What is learned of the message on its way to mailparser. */
export interface Outline {
  headers: RawHeader[];
  /** what mailparser read of the header: the addresses */
  addresses: Headers;
  /** charset that the message names somewhere, for what is in raw 8 bits */
  charset: string | null;
  /** the leaves, in order */
  parts: Part[];
  /** of `parts` those that mailparser gives the content of, in order */
  files: Part[];
  /** text in a multipart but in no part of it, for a message without any other */
  outside: Buffer;
  /** something was left out: a limit or the deadline was hit */
  isPartial: boolean;
}

const MAX_OUTSIDE = 256 * 1024;
/** Parts of a mail, with the files that are unpacked of them. */
export const MAX_PARTS = 1000;
const MAX_TEXT = 16 * 1024 * 1024;

/** mailparser's own bounds: a little wider, since what it gets has been counted here. */
export const MIME_BOUNDS = { ignoreEmbedded: true, maxHeadSize: 16 * 1024 * 1024, maxChildNodes: MAX_PARTS + 10 };

/** The files of the message for mailparser, nothing when there are none; `outline` is filled on the way. @throws only when the source's file cannot be read */
export async function* prepareSource(
  source: Uint8Array | { path: string },
  limits: SourceLimits,
  outline: Outline,
): AsyncGenerator<Buffer> {
  const passage = new Passage(source, limits, outline);
  const reader = new StructureReader(passage);
  const repaired = createLineEndRepair();
  try {
    for await (const piece of openSource(source, limits.maxBytes)) {
      if (limits.isTimeUp()) {
        outline.isPartial = true;
        // The header is read whatever it takes.
        if (outline.headers.length > 0) break;
      }
      reader.write(repaired(piece, false));
      yield* passage.take();
      if (reader.isCut) break;
    }
    reader.write(repaired(Buffer.alloc(0), true));
  } catch (error) {
    if (isReadFailure(error)) throw error;
    outline.isPartial = true;
  }
  reader.end();
  if (reader.isCut) outline.isPartial = true;
  yield* passage.take();
  yield passage.finish();
}

/** Takes the structure of a message, keeps its texts, and makes mailparser's message of the rest. */
class Passage {
  private readonly source: Uint8Array | { path: string };
  private readonly limits: SourceLimits;
  private readonly outline: Outline;
  private readonly boundary = `=_${randomUUID()}`;
  private output: Buffer[] = [];
  private part: Part | null = null;
  private text: Buffer[] | null = null;
  private textBytes = 0;
  private decoder: TransferDecoder | null = null;
  /** of the file that was begun last */
  private hasContent = false;
  private readonly lost = new Map<Entity, Buffer[]>();

  constructor(source: Uint8Array | { path: string }, limits: SourceLimits, outline: Outline) {
    this.source = source;
    this.limits = limits;
    this.outline = outline;
  }

  /** What mailparser gets next. */
  take(): Buffer[] {
    const { output } = this;
    this.output = [];
    return output;
  }

  /** The end of mailparser's message. */
  finish(): Buffer {
    return Buffer.from(this.outline.files.length > 0 ? `\r\n--${this.boundary}--\r\n` : '');
  }

  entity(entity: Entity): boolean {
    const { outline, limits } = this;
    if (entity.parent === null) this.openRoot(entity.fields);
    if (limits.headerOnly) return false;
    if (entity.isMultipart) return true;
    if (outline.parts.length >= MAX_PARTS) return false;
    this.begin(describePart(entity, outline.parts, outline.charset));
    return true;
  }

  body(bytes: Buffer): void {
    const { part, text, decoder } = this;
    if (!part) return;
    if (text) {
      this.keepText(bytes, text);
      return;
    }
    this.pushContent(decoder ? decoder.write(bytes) : bytes);
  }

  end(entity: Entity): void {
    if (entity.isMultipart) this.endMultipart(entity);
    else this.endPart();
  }

  outside(bytes: Buffer, multipart: Entity): void {
    const kept = this.lost.get(multipart) ?? [];
    const room = MAX_OUTSIDE - kept.reduce((sum, one) => sum + one.length, 0);
    if (room > 0) kept.push(bytes.subarray(0, room));
    else if (multipart.parts === 0) this.outline.isPartial = true;
    this.lost.set(multipart, kept);
  }

  private openRoot(fields: RawHeader[]): void {
    const { outline } = this;
    outline.headers = fields;
    outline.charset = namedCharset(this.source, fields);
    const { addresses, isCut } = readAddressFields(fields, outline.charset);
    outline.addresses = addresses;
    if (isCut) outline.isPartial = true;
  }

  private begin(part: Part): void {
    this.outline.parts.push(part);
    this.part = part;
    this.text = part.role === 'file' ? null : [];
    if (this.text) return;
    const isFirst = this.outline.files.push(part) === 1;
    if (isFirst) this.output.push(Buffer.from(`Content-Type: multipart/mixed; boundary="${this.boundary}"\r\n\r\n`));
    this.decoder = decoderOf(part.encoding);
    const encoding = part.encoding === 'base64' ? 'base64' : 'binary';
    // the line break before a delimiter belongs to it; after a head without content mailparser takes it for content
    const lineEnd = isFirst || this.hasContent ? '\r\n' : '';
    this.hasContent = false;
    const head = `${lineEnd}--${this.boundary}\r\nContent-Type: application/octet-stream\r\nContent-Disposition: attachment\r\n`;
    this.output.push(Buffer.from(`${head}Content-Transfer-Encoding: ${encoding}\r\n\r\n`));
  }

  private pushContent(bytes: Buffer): void {
    if (bytes.length > 0) this.hasContent = true;
    this.output.push(bytes);
  }

  private keepText(bytes: Buffer, text: Buffer[]): void {
    const { encoding } = this.part as Part;
    const max = (this.limits.maxText ?? MAX_TEXT) * (encoding === 'identity' ? 1 : 1.4);
    const kept = bytes.subarray(0, Math.max(0, max - this.textBytes));
    if (kept.length < bytes.length) this.outline.isPartial = true;
    this.textBytes += kept.length;
    // A view of a piece of the message would keep the whole piece in memory.
    if (kept.length > 0) text.push(kept.length < bytes.length ? Buffer.from(kept) : kept);
  }

  private endPart(): void {
    const { part, text, decoder } = this;
    this.part = null;
    this.text = null;
    this.decoder = null;
    if (part && text) {
      part.content = decodeText(Buffer.concat(text), part);
      part.size = part.content.length;
    } else if (decoder) this.pushContent(decoder.end());
  }

  /** What is in no part of a multipart is its text where it has no parts, and else kept for a message without a text. */
  private endMultipart(multipart: Entity): void {
    const { outline, lost } = this;
    const outside = Buffer.concat(lost.get(multipart) ?? []);
    lost.delete(multipart);
    if (!/[^\s-]/.test(outside.toString('latin1', 0, 4096))) return;
    if (multipart.parts > 0) {
      outline.outside = Buffer.concat([outline.outside, outside]).subarray(0, MAX_OUTSIDE);
      return;
    }
    if (outline.parts.length >= MAX_PARTS) {
      outline.isPartial = true;
      return;
    }
    const type = { value: 'text/plain', params: multipart.type.params };
    const leaf = { ...multipart, isMultipart: false, declared: '', type, disposition: { value: '', params: {} } };
    this.begin(describePart(leaf, outline.parts, outline.charset));
    this.body(outside);
    this.endPart();
  }
}

function decodeText(bytes: Buffer, { encoding }: Part): Buffer {
  if (encoding === 'base64') return decodeBase64Text(bytes);
  const decoder = decoderOf(encoding);
  return decoder ? Buffer.concat([decoder.write(bytes), decoder.end()]) : bytes;
}

function firstOf(fields: readonly RawHeader[], key: string): RawHeader | undefined {
  return fields.find((field) => field.key === key);
}

const CHARSET = /charset\s*=\s*(?:3D)?["']?([\w:.-]{1,40})/gi;

/** The first charset other than ASCII and UTF-8 that a message names, in a header or in its HTML; for raw 8 bits. */
function namedCharset(source: Uint8Array | { path: string }, fields: readonly RawHeader[]): string | null {
  const own = namesIn(firstOf(fields, 'content-type')?.raw ?? '').find(isUsefulHint);
  return own ?? namesIn(readStart(source, 64 * 1024).toString('latin1')).find(isUsefulHint) ?? null;
}

function namesIn(text: string): string[] {
  return [...text.matchAll(CHARSET)].slice(0, 50).map((match) => match[1] ?? '');
}
