import { type EventEmitter, once } from 'node:events';
import { closeSync, mkdirSync, openSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { finished } from 'node:stream/promises';
import { type AttachmentStream, type Headers, MailParser, type MailParserOptions, type MessageText } from 'mailparser';
import { isReadFailure } from './open-source.ts';
import { type Part, settleRoles } from './part.ts';
import { MIME_BOUNDS, type Outline, prepareSource, type SourceLimits } from './prepared-source.ts';
import { isTnef, unpackTnef } from './unpack-tnef.ts';

export interface ReadParts extends Outline {
  /** what mailparser read of the header: the addresses */
  addresses: Headers;
}

export interface PartLimits extends SourceLimits {
  /** files over 256 KB in all go into this folder, which is made when needed */
  spillDir: string;
  /** a winmail.dat stays as it is */
  keepTnef?: boolean;
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

/**
 * Reads a message into its parts: mailparser reads its addresses and decodes its files. Never throws for what the message
 * holds; stops where a limit says so.
 * @throws when the source's file cannot be read
 */
export async function readParts(source: Uint8Array | { path: string }, limits: PartLimits): Promise<ReadParts> {
  const result: ReadParts = {
    headers: [],
    charset: null,
    parts: [],
    files: [],
    outside: Buffer.alloc(0),
    isPartial: false,
    addresses: new Map(),
  };
  const openContent = createPartContents(limits.spillDir);
  const parser = new MailParser(OPTIONS);
  const contents: ContentWriter[] = [];
  const ends: Promise<void>[] = [];
  parser.on('headers', (headers: Headers) => {
    result.addresses = headers;
  });
  parser.on('data', (data: AttachmentStream | MessageText) => {
    const part = data.type === 'attachment' ? result.files[contents.length] : undefined;
    if (data.type !== 'attachment' || !part) return;
    const writer = openContent(part);
    contents.push(writer);
    ends.push(fillPart(data, writer, (error) => parser.destroy(error)));
  });
  try {
    await Promise.all([finished(parser), feed(parser, prepareSource(source, limits, result))]);
    await Promise.all(ends);
    if (contents.length < result.files.length) result.isPartial = true;
  } catch (error) {
    if (isReadFailure(error)) throw error;
    result.isPartial = true;
  } finally {
    parser.destroy();
    for (const writer of contents) writer.end();
  }
  settleRoles(result.parts);
  if (limits.keepTnef) return result;
  const parts = unpackTnef(result.parts, limits);
  // one that there was no time for
  if (limits.isTimeUp() && parts.some(isTnef)) result.isPartial = true;
  return { ...result, parts };
}

async function feed(parser: MailParser, pieces: AsyncIterable<Buffer>): Promise<void> {
  for await (const piece of pieces) {
    if (parser.destroyed) return;
    if (piece.length > 0 && !parser.write(piece)) await once(parser, 'drain');
  }
  parser.end();
}

/** Puts what mailparser decodes of a file into its part. */
function fillPart(data: AttachmentStream, writer: ContentWriter, fail: (error: Error) => void): Promise<void> {
  const content = data.content as EventEmitter;
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

/** Receives the content of one part, piece by piece. */
interface ContentWriter {
  write(bytes: Buffer): void;
  /** puts the content into the part; may be called twice */
  end(): void;
}

/**
 * Where the contents of a message's files go: 256 KB stay in memory, what is more goes into `spillDir`, which is made when
 * needed.
 * @throws when a file cannot be written
 */
function createPartContents(spillDir: string): (part: Part) => ContentWriter {
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
