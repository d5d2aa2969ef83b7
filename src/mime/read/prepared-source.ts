import { isUtf8 } from 'node:buffer';
import { type MimeNode, Splitter } from '@zone-eu/mailsplit';
import { decodeHeaderBytes } from './charsets.ts';
import { type RawHeader, readHeaderLine, splitHeader } from './headers.ts';
import { isReadFailure, openSource, readStart } from './open-source.ts';
import { describePart, type Part } from './part.ts';

/*
 * The message as mailparser gets it: bounded, with the header fields rewritten that mailparser would read wrongly. Bodies
 * pass as they are. Each pass is here because of a test; the first seven rows are in test/mime/mailparser.test.ts, which
 * also shows what mailparser alone makes of the mail.
 *
 *   mailparser alone                                pass                    test
 *   takes the last From or Reply-To                 rootFields              takes the last From
 *   reads raw 8-bit fields as UTF-8 only            headerBytes             reads names in raw 8 bits; knows no charset
 *   joins all texts, decodes them without a label   leafFields: attachment  runs a text file into the body; reads text
 *     as UTF-8, flowed text without its quotes                                without a charset; joins flowed lines
 *   makes a file of a bogus Content-Type            leafFields: media type  makes a file of text
 *   reads parts of a digest as text                 leafFields: media type  reads the parts of a digest
 *   takes a header that ends in a delimiter for     delimiterOf             the header of a part that ends
 *     the part's text
 *   holds every header in memory many times over    MAX_HEADS               no more than 8 MB of headers
 *   parses nested groups in the square of time      MAX_FIELD, rootFields   parser.test.ts: groups within groups
 *   decodes quoted-printable in memory, and in      MAX_QUOTED, shortRuns   text.test.ts: a long run of white space
 *     the square of a run of white space
 *   gives up where a header never ends              prepareSource, at end   parser.test.ts: a header that never ends
 */

export interface SourceLimits {
  /** asked between pieces of the message; true: stop reading */
  isTimeUp: () => boolean;
  /** read no more of the source */
  maxBytes?: number;
  /** leave out the content of files */
  skipFiles?: boolean;
}

/** What is learned of the message on its way to mailparser. */
export interface Outline {
  headers: RawHeader[];
  /** charset that the message as a whole names, for headers in raw 8 bits */
  charset: string | null;
  /** the leaves, in order: mailparser gives one attachment for each */
  parts: Part[];
  /** the start of what is in a multipart but in no part of it; for messages whose boundaries are broken */
  outside: Buffer;
  /** something was left out: a limit or the deadline was hit, or the structure could not be followed */
  isPartial: boolean;
}

export const MAX_OUTSIDE = 256 * 1024;
const MAX_HEAD = 4 * 1024 * 1024;
const MAX_HEADS = 8 * 1024 * 1024;
const MAX_PARTS = 1000;
/** Bytes that are read of a header that never ends. */
const MAX_BROKEN_HEADER = 256 * 1024;
/** Bounds what one hostile field costs; some 6,000 ordinary recipients. */
const MAX_FIELD = 256 * 1024;
/** mailparser holds quoted-printable parts whole, and needs many times their size to decode them. */
const MAX_QUOTED = 8 * 1024 * 1024;

/** mailparser's own bounds: a little wider, since what it gets has been counted here. */
export const MIME_BOUNDS = { ignoreEmbedded: true, maxHeadSize: MAX_HEADS, maxChildNodes: MAX_PARTS + 10 };

type Chunk = MimeNode | { type: 'data' | 'body'; value: Buffer; node: MimeNode };

/** The message for mailparser; `outline` is filled on the way. @throws only when the source's file cannot be read */
export async function* prepareSource(
  source: Uint8Array | { path: string },
  limits: SourceLimits,
  outline: Outline,
): AsyncGenerator<Buffer> {
  const input = openSource(source, limits.maxBytes);
  const splitter = new Splitter({ ignoreEmbedded: true, maxHeadSize: MAX_HEAD, maxChildNodes: MAX_PARTS });
  input.on('error', (error) => splitter.destroy(error));
  input.pipe(splitter);
  const passage = createPassage(source, limits, outline);
  try {
    for await (const chunk of splitter as AsyncIterable<Chunk>) {
      const bytes = limits.isTimeUp() ? null : passage(chunk);
      if (bytes === null) {
        outline.isPartial = true;
        break;
      }
      if (bytes.length > 0) yield bytes;
    }
  } catch (error) {
    if (isReadFailure(error)) throw error;
    outline.isPartial = true;
  } finally {
    input.destroy();
  }
  if (outline.isPartial && outline.headers.length === 0) {
    outline.headers = splitHeader(readStart(source, MAX_BROKEN_HEADER).toString('latin1'));
    yield headerBytes(rootFields(outline.headers), null);
  }
}

const NOTHING = Buffer.alloc(0);

/** Returns a function that says what mailparser gets of each piece of the message; null: stop reading. */
function createPassage(source: Uint8Array | { path: string }, limits: SourceLimits, outline: Outline) {
  let headBytes = 0;
  let quotedBytes = 0;
  let part: Part | null = null;

  function passNode(node: MimeNode): Buffer | null {
    const lines = node.headers ? node.headers.getList() : [];
    headBytes += lines.reduce((sum, line) => sum + line.line.length, 0);
    if (headBytes > MAX_HEADS) return null;
    const fields = lines.map((line) => readHeaderLine(line.line)).filter((field) => field !== null);
    if (node.root) {
      outline.headers = fields;
      outline.charset = node.charset || null;
    }
    part = node.multipart ? null : describePart(node, outline.parts);
    if (part) outline.parts.push(part);
    const hint = outline.charset ?? part?.charset ?? firstCharset(source, lines);
    outline.charset ??= part?.charset ?? null;
    const own = node.root ? rootFields(fields) : fields;
    return headerBytes(part ? leafFields(own, part) : own, hint);
  }

  function passBody({ value, node }: { value: Buffer; node: MimeNode }): Buffer {
    if (limits.skipFiles && part?.role === 'file') return NOTHING;
    if (node.encoding !== 'quoted-printable') return value;
    quotedBytes += value.length;
    if (quotedBytes <= MAX_QUOTED) return shortRuns(value);
    outline.isPartial = true;
    return NOTHING;
  }

  return (chunk: Chunk): Buffer | null => {
    if (chunk.type === 'node') return passNode(chunk);
    if (chunk.type === 'body') return passBody(chunk);
    const room = MAX_OUTSIDE - outline.outside.length;
    if (room > 0) outline.outside = Buffer.concat([outline.outside, chunk.value.subarray(0, room)]);
    const value = part ? delimiterOf(chunk.value) : chunk.value;
    part = null;
    return value;
  };
}

/** What follows a leaf: the splitter repeats the leaf's header here where a delimiter ends it. */
function delimiterOf(value: Buffer): Buffer {
  if (/^\r?\n?--/.test(value.toString('latin1', 0, 4))) return value;
  return value.subarray(Math.max(0, value.indexOf('\n--') + 1));
}

/** mailparser needs the square of the time for a run of white space in quoted-printable, where RFC 2045 6.7 allows 76. */
function shortRuns(value: Buffer): Buffer {
  const text = value.toString('latin1');
  return /[\t ]{100}/.test(text) ? Buffer.from(text.replace(/[\t ]{100,}/g, ' '.repeat(100)), 'latin1') : value;
}

/**
 * The fields of the message's own header that mailparser reads: addresses and structure. decodeHeaders reads all fields,
 * in their order. Of several From and Reply-To the first with an address stays.
 */
function rootFields(fields: readonly RawHeader[]): RawHeader[] {
  const isKept = (field: RawHeader): boolean =>
    /^(from|reply-to)$/.test(field.key)
      ? field === (fields.find(({ key, raw }) => key === field.key && raw.includes('@')) ?? firstOf(fields, field.key))
      : /^(to|cc|bcc|content-.*)$/.test(field.key);
  return fields.filter(isKept);
}

/**
 * The header of a leaf, labelled as an attachment with a valid media type: so mailparser gives its bytes, undecoded and
 * apart from other leaves.
 */
function leafFields(fields: readonly RawHeader[], { mime }: Part): RawHeader[] {
  const set = (name: string, raw: string): RawHeader => ({ name, key: name.toLowerCase(), raw });
  return [
    ...fields.filter(({ key }) => key !== 'content-type' && key !== 'content-disposition'),
    set('Content-Type', (firstOf(fields, 'content-type')?.raw ?? '').replace(/^[^;]*/, mime)),
    set('Content-Disposition', (firstOf(fields, 'content-disposition')?.raw ?? '').replace(/^[^;]*/, 'attachment')),
  ];
}

function firstOf(fields: readonly RawHeader[], key: string): RawHeader | undefined {
  return fields.find((field) => field.key === key);
}

/** A header in UTF-8, as mailparser expects raw 8 bits to be. No charset may turn bytes into a line break. */
function headerBytes(fields: readonly RawHeader[], hint: string | null): Buffer {
  const lines = fields.map(({ name, raw }) => `${name}: ${decodeHeaderBytes(raw.slice(0, MAX_FIELD), hint)}`);
  return Buffer.from(`${lines.map((line) => `${line.replace(/[\r\n]+/g, ' ')}\r\n`).join('')}\r\n`);
}

/** The first charset that a message names, for a header in raw 8 bits that are not UTF-8; else null. */
function firstCharset(source: Uint8Array | { path: string }, lines: readonly { line: string }[]): string | null {
  if (lines.every(({ line }) => /^[\0-\x7f]*$/.test(line) || isUtf8(Buffer.from(line, 'latin1')))) return null;
  return /charset\s*=\s*["']?([\w:.-]{1,40})/i.exec(readStart(source, 64 * 1024).toString('latin1'))?.[1] ?? null;
}
