import { join } from 'node:path';
import { type AddressFields, readAddressFields } from './address-fields.ts';
import { isUsefulHint } from './charsets.ts';
import type { RawHeader } from './raw-header.ts';
import { createLineEndRepair } from './line-ends.ts';
import { isReadFailure, openSource, readStart } from './open-source.ts';
import { type ContentWriter, createPartContents } from './part-contents.ts';
import { describePart, type Part, settleRoles } from './part.ts';
import { signedContent } from './unpack/signed-content.ts';
import { type Entity, StructureReader } from './structure.ts';
import { decodeBase64Text, decoderOf, type TransferDecoder } from './transfer-decoders.ts';
import { isTnef, MAX_PARTS, unpackTnef } from './unpack/tnef.ts';
import { unpackUuencode } from './unpack/uuencode.ts';

/*
 * structure.ts reads the structure of a message, transfer-decoders.ts decodes its content, and mailparser reads only the
 * addresses: test/mime/mailparser.test.ts shows the texts and files that its parser loses in real mail.
 */

/** How much of a message is read. */
export interface PartLimits {
  /** called between pieces of the message; true: stop reading */
  isTimeUp: () => boolean;
  /** folder for files beyond 256 KB in all, created when needed */
  spillDir: string;
  /** bytes of the source that are read at most */
  maxBytes?: number;
  /** omit bodies and files */
  headerOnly?: boolean;
  /** bytes of text kept at most (default 16 MB) */
  maxText?: number;
  /** signed messages around this one */
  depth?: number;
  /** do not unpack winmail.dat */
  keepTnef?: boolean;
}

/** The parts of a message. */
export interface ReadParts {
  headers: RawHeader[];
  addresses: AddressFields;
  /** charset that the message names somewhere, for raw 8-bit text */
  charset: string | null;
  /** the leaves, in order */
  parts: Part[];
  /** text in a multipart but outside of its parts, for a message without any other */
  outside: Buffer;
  /** something was left out: a limit or the deadline was hit */
  isPartial: boolean;
}

const MAX_OUTSIDE = 256 * 1024;
const MAX_TEXT = 16 * 1024 * 1024;

/**
 * Reads a message into its parts. Never throws for what the message holds; stops where a limit says so.
 * @throws when the source's file cannot be read, or a file cannot be written
 */
export async function readParts(source: Uint8Array | { path: string }, limits: PartLimits): Promise<ReadParts> {
  const result: ReadParts = {
    headers: [],
    addresses: new Map(),
    charset: null,
    parts: [],
    outside: Buffer.alloc(0),
    isPartial: false,
  };
  const collector = new PartCollector(source, limits, result);
  try {
    await readStructure(source, new StructureReader(collector), limits, result);
  } finally {
    collector.close();
  }
  settleRoles(result.parts);
  if (limits.keepTnef) return result;
  const unpacked = unpackUuencode(unpackTnef(result.parts, limits));
  const parts = await unpackSigned(unpacked, limits, result);
  // no time was left for this part
  if (limits.isTimeUp() && parts.some(isTnef)) result.isPartial = true;
  return { ...result, parts };
}

/** Larger ones, in bytes, stay closed: they are read in memory. */
const MAX_SIGNED = 32 * 1024 * 1024;
const MAX_NESTED = 3;

/** Puts what an opaque-signed S/MIME part holds before the part, which stays as a file with the signature. */
async function unpackSigned(parts: Part[], limits: PartLimits, result: ReadParts): Promise<Part[]> {
  const { depth = 0 } = limits;
  const all: Part[] = [];
  for (const [index, part] of parts.entries()) {
    const isSigned = /^application\/(x-)?pkcs7-mime$/.test(part.mime) && part.size > 0 && part.size <= MAX_SIGNED;
    if (isSigned && depth < MAX_NESTED && all.length < MAX_PARTS && !limits.isTimeUp()) {
      const content = signedContent(readStart(part.content, MAX_SIGNED));
      const spillDir = join(limits.spillDir, `signed-${index}`);
      const inner = content && (await readParts(content, { ...limits, spillDir, depth: depth + 1 }));
      if (inner?.isPartial) result.isPartial = true;
      for (const each of inner?.parts ?? []) all.push(each);
    }
    all.push(part);
  }
  return all;
}

async function readStructure(
  source: Uint8Array | { path: string },
  reader: StructureReader,
  limits: PartLimits,
  result: ReadParts,
): Promise<void> {
  const repaired = createLineEndRepair();
  try {
    for await (const piece of openSource(source, limits.maxBytes)) {
      // The header is read regardless of the time.
      if (limits.isTimeUp() && result.headers.length > 0) {
        result.isPartial = true;
        break;
      }
      reader.write(repaired(piece, false));
      if (reader.isCut) break;
    }
    reader.write(repaired(Buffer.alloc(0), true));
  } catch (error) {
    if (isReadFailure(error)) throw error;
    result.isPartial = true;
  }
  reader.end();
  if (reader.isCut) result.isPartial = true;
}

/** Receives the structure of a message and stores the content of its leaves. */
class PartCollector {
  private readonly source: Uint8Array | { path: string };
  private readonly limits: PartLimits;
  private readonly result: ReadParts;
  private readonly openContent: (part: Part) => ContentWriter;
  private part: Part | null = null;
  private text: Buffer[] | null = null;
  private textBytes = 0;
  private decoder: TransferDecoder | null = null;
  private file: ContentWriter | null = null;
  private readonly lost = new Map<Entity, Buffer[]>();

  constructor(source: Uint8Array | { path: string }, limits: PartLimits, result: ReadParts) {
    this.source = source;
    this.limits = limits;
    this.result = result;
    this.openContent = createPartContents(limits.spillDir);
  }

  entity(entity: Entity): boolean {
    const { result, limits } = this;
    if (entity.parent === null) this.openRoot(entity.fields);
    if (limits.headerOnly) return false;
    if (entity.isMultipart) return true;
    if (result.parts.length >= MAX_PARTS) return false;
    this.begin(describePart(entity, result.parts, result.charset));
    return true;
  }

  body(bytes: Buffer): void {
    if (this.text) this.keepText(bytes, this.text);
    else this.file?.write(this.decoder ? this.decoder.write(bytes) : bytes);
  }

  end(entity: Entity): void {
    if (entity.isMultipart) this.endMultipart(entity);
    else this.endPart();
  }

  outside(bytes: Buffer, multipart: Entity): void {
    const kept = this.lost.get(multipart) ?? [];
    const room = MAX_OUTSIDE - kept.reduce((sum, one) => sum + one.length, 0);
    if (room > 0) kept.push(bytes.subarray(0, room));
    else if (multipart.parts === 0) this.result.isPartial = true;
    this.lost.set(multipart, kept);
  }

  /** Discards an unfinished file. */
  close(): void {
    this.file?.end();
  }

  private openRoot(fields: RawHeader[]): void {
    const { result } = this;
    result.headers = fields;
    result.charset = namedCharset(this.source, fields);
    const { addresses, isCut } = readAddressFields(fields, result.charset);
    result.addresses = addresses;
    if (isCut) result.isPartial = true;
  }

  private begin(part: Part): void {
    this.result.parts.push(part);
    this.part = part;
    this.text = part.role === 'file' ? null : [];
    if (this.text) return;
    this.decoder = decoderOf(part.encoding);
    this.file = this.openContent(part);
  }

  private keepText(bytes: Buffer, text: Buffer[]): void {
    const { encoding } = this.part as Part;
    const max = (this.limits.maxText ?? MAX_TEXT) * (encoding === 'identity' ? 1 : 1.4);
    const kept = bytes.subarray(0, Math.max(0, max - this.textBytes));
    if (kept.length < bytes.length) this.result.isPartial = true;
    this.textBytes += kept.length;
    // A view of a piece of the message would keep the whole piece in memory.
    if (kept.length > 0) text.push(kept.length < bytes.length ? Buffer.from(kept) : kept);
  }

  private endPart(): void {
    const { part, text, decoder, file } = this;
    if (part && text) {
      part.content = decodeText(Buffer.concat(text), part);
      part.size = part.content.length;
    } else if (file) {
      if (decoder) file.write(decoder.end());
      file.end();
    }
    this.part = null;
    this.text = null;
    this.decoder = null;
    this.file = null;
  }

  /** Text outside of parts is the text of a multipart without parts, else the fallback of a message without text. */
  private endMultipart(multipart: Entity): void {
    const { result, lost } = this;
    const outside = Buffer.concat(lost.get(multipart) ?? []);
    lost.delete(multipart);
    if (!/[^\s-]/.test(outside.toString('latin1', 0, 4096))) return;
    if (multipart.parts > 0) {
      result.outside = Buffer.concat([result.outside, outside]).subarray(0, MAX_OUTSIDE);
      return;
    }
    if (result.parts.length >= MAX_PARTS) {
      result.isPartial = true;
      return;
    }
    const type = { value: 'text/plain', params: multipart.type.params };
    const leaf = { ...multipart, isMultipart: false, declared: '', type, disposition: { value: '', params: {} } };
    this.begin(describePart(leaf, result.parts, result.charset));
    this.body(outside);
    this.endPart();
  }
}

function decodeText(bytes: Buffer, { encoding }: Part): Buffer {
  if (encoding === 'base64') return decodeBase64Text(bytes);
  const decoder = decoderOf(encoding);
  return decoder ? Buffer.concat([decoder.write(bytes), decoder.end()]) : bytes;
}

const CHARSET = /charset\s*=\s*(?:3D)?["']?([\w:.-]{1,40})/gi;

/** The first charset other than ASCII and UTF-8 that a message names, in a header or in its HTML; for raw 8 bits. */
function namedCharset(source: Uint8Array | { path: string }, fields: readonly RawHeader[]): string | null {
  const own = namesIn(fields.find(({ key }) => key === 'content-type')?.raw ?? '').find(isUsefulHint);
  return own ?? namesIn(readStart(source, 64 * 1024).toString('latin1')).find(isUsefulHint) ?? null;
}

function namesIn(text: string): string[] {
  return [...text.matchAll(CHARSET)].slice(0, 50).map((match) => match[1] ?? '');
}
