import { type EventEmitter, once } from 'node:events';
import { closeSync, mkdirSync, openSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { finished } from 'node:stream/promises';
import { type AttachmentStream, type Headers, MailParser, type MailParserOptions, type MessageText } from 'mailparser';
import { isReadFailure } from './open-source.ts';
import type { Part } from './part.ts';
import { MAX_OUTSIDE, MIME_BOUNDS, type Outline, prepareSource, type SourceLimits } from './prepared-source.ts';

export interface ReadParts extends Outline {
  /** what mailparser read of the header: the addresses */
  addresses: Headers;
}

export interface PartLimits extends SourceLimits {
  /** files over 256 KB in all go into this folder, which is made when needed */
  spillDir: string;
  /** bytes of text kept at most (default 10 MB) */
  maxText?: number;
}

/**
 * Reads a message into its parts by mailparser. Never throws for what the message holds; stops where a limit says so.
 * @throws when the source's file cannot be read
 */
export async function readParts(source: Uint8Array | { path: string }, limits: PartLimits): Promise<ReadParts> {
  const first = await read(source, limits);
  const boundary = first.parts.length === 0 ? guessBoundary(first.outside) : null;
  if (boundary === null) return first;
  // The declared boundary is not the one in use, or none is declared: read the rest again with the one in use.
  const head = Buffer.from(`Content-Type: multipart/mixed; boundary="${boundary}"\r\n\r\n`, 'latin1');
  const again = await read(Buffer.concat([head, first.outside]), limits);
  if (again.parts.length === 0) return first;
  const isPartial = first.isPartial || again.isPartial || first.outside.length === MAX_OUTSIDE;
  return { ...first, parts: again.parts, charset: again.charset, isPartial };
}

/** The first line that looks like a delimiter (RFC 2046 5.1.1) with a header below it; null when there is none. */
function guessBoundary(bytes: Buffer): string | null {
  return /^--([^\r\n"\\]{1,100})\r?\n(?:[\w-]{1,60}:|\r?\n)/m.exec(bytes.toString('latin1'))?.[1] ?? null;
}

/**
 * Bodies are made by body.ts and html.ts. mailparser's HTML of a text writes every letter beyond ASCII as a number and
 * links @names to Twitter; its text of an HTML is bounded in length but not in depth (test/mime/text.test.ts).
 */
const OPTIONS: MailParserOptions = {
  ...MIME_BOUNDS,
  skipHtmlToText: true,
  skipTextToHtml: true,
  skipTextLinks: true,
  skipImageLinks: true,
};

async function read(source: Uint8Array | { path: string }, limits: PartLimits): Promise<ReadParts> {
  const result: ReadParts = {
    headers: [],
    charset: null,
    parts: [],
    outside: Buffer.alloc(0),
    isPartial: false,
    addresses: new Map(),
  };
  const onCut = (): void => {
    result.isPartial = true;
  };
  const openContent = createPartContents(limits.spillDir, onCut, limits.maxText);
  const parser = new MailParser(OPTIONS);
  const contents: ContentWriter[] = [];
  const ends: Promise<void>[] = [];
  parser.on('headers', (headers: Headers) => {
    result.addresses = headers;
  });
  parser.on('data', (data: AttachmentStream | MessageText) => {
    const part = data.type === 'attachment' ? result.parts[contents.length] : undefined;
    if (data.type !== 'attachment' || !part) return;
    const writer = openContent(part);
    contents.push(writer);
    ends.push(fillPart(data, part, writer, (error) => parser.destroy(error)));
  });
  try {
    await Promise.all([finished(parser), feed(parser, prepareSource(source, limits, result))]);
    await Promise.all(ends);
    if (contents.length < result.parts.length) result.isPartial = true;
  } catch (error) {
    if (isReadFailure(error)) throw error;
    result.isPartial = true;
  } finally {
    parser.destroy();
    for (const writer of contents) writer.end();
  }
  return result;
}

async function feed(parser: MailParser, pieces: AsyncIterable<Buffer>): Promise<void> {
  for await (const piece of pieces) {
    if (parser.destroyed) return;
    if (!parser.write(piece)) await once(parser, 'drain');
  }
  parser.end();
}

/** Puts what mailparser says of a part, and its content, into that part. */
function fillPart(
  data: AttachmentStream,
  part: Part,
  writer: ContentWriter,
  fail: (error: Error) => void,
): Promise<void> {
  const content = data.content as EventEmitter;
  if (part.mime === 'application/octet-stream') part.mime = data.contentType;
  part.filename = data.filename ?? null;
  part.cid = data.cid || null;
  part.inRelated = data.related ?? false;
  content.on('data', (bytes: Buffer) => {
    try {
      writer.write(bytes);
    } catch (error) {
      fail(error as Error);
    }
  });
  return new Promise((resolve) => {
    content.once('end', () => {
      writer.end();
      data.release();
      resolve();
    });
  });
}

const MAX_IN_MEMORY = 256 * 1024;
const MAX_TEXT = 10 * 1024 * 1024;

/** Receives the content of one part, piece by piece. */
export interface ContentWriter {
  write(bytes: Buffer): void;
  /** puts the content into the part; may be called twice */
  end(): void;
}

/**
 * Where the contents of a message's parts go: 10 MB of text and 256 KB of files stay in memory, further files go into
 * `spillDir`, which is made when needed. `onCut` is called when text was left out.
 * @throws when a file cannot be written
 */
export function createPartContents(
  spillDir: string,
  onCut: () => void,
  maxText = MAX_TEXT,
): (part: Part) => ContentWriter {
  let textBytes = 0;
  let memoryBytes = 0;
  let files = 0;

  return (part) => {
    let chunks: Buffer[] = [];
    let file: number | null = null;

    const spill = (): number => {
      const path = join(spillDir, String(++files));
      mkdirSync(spillDir, { recursive: true, mode: 0o700 });
      const opened = openSync(path, 'w', 0o600);
      part.content = { path };
      for (const chunk of chunks) writeSync(opened, chunk);
      memoryBytes -= part.size;
      chunks = [];
      return opened;
    };

    return {
      write(bytes) {
        if (part.role !== 'file') {
          const kept = bytes.subarray(0, maxText - textBytes);
          if (kept.length < bytes.length) onCut();
          textBytes += kept.length;
          chunks.push(kept);
          part.size += kept.length;
          return;
        }
        if (file === null && memoryBytes + bytes.length > MAX_IN_MEMORY) file = spill();
        part.size += bytes.length;
        if (file !== null) {
          writeSync(file, bytes);
          return;
        }
        memoryBytes += bytes.length;
        chunks.push(bytes);
      },
      end() {
        if (file !== null) closeSync(file);
        else if (chunks.length > 0) part.content = Buffer.concat(chunks);
        file = null;
        chunks = [];
      },
    };
  };
}
