import { type EventEmitter, once } from 'node:events';
import { closeSync, mkdirSync, openSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { finished } from 'node:stream/promises';
import { type AttachmentStream, MailParser, type MailParserOptions, type MessageText } from 'mailparser';
import { isReadFailure } from './open-source.ts';
import { type Part, settleRoles } from './part.ts';
import { MIME_BOUNDS, type Outline, prepareSource, type SourceLimits } from './prepared-source.ts';
import { isTnef, unpackTnef } from './unpack-tnef.ts';

export type ReadParts = Outline;

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
 * Reads a message into its parts: mailparser decodes its files. Never throws for what the message
 * holds; stops where a limit says so.
 * @throws when the source's file cannot be read
 */
export async function readParts(source: Uint8Array | { path: string }, limits: PartLimits): Promise<ReadParts> {
  const result: ReadParts = {
    headers: [],
    addresses: new Map(),
    charset: null,
    parts: [],
    files: [],
    outside: Buffer.alloc(0),
    isPartial: false,
  };
  const files = createFileReader(result, limits.spillDir);
  try {
    for await (const piece of prepareSource(source, limits, result)) if (!(await files.write(piece))) break;
    await files.end();
  } catch (error) {
    if (isReadFailure(error)) throw error;
    result.isPartial = true;
  } finally {
    files.close();
  }
  settleRoles(result.parts);
  if (limits.keepTnef) return result;
  const parts = unpackTnef(result.parts, limits);
  // one that there was no time for
  if (limits.isTimeUp() && parts.some(isTnef)) result.isPartial = true;
  return { ...result, parts };
}

interface FileReader {
  /** the next bytes for mailparser; false: it takes no more. @throws what it failed with */
  write(bytes: Buffer): Promise<boolean>;
  /** the message has ended: waits for the files. @throws what mailparser failed with */
  end(): Promise<void>;
  /** gives up what has not ended */
  close(): void;
}

/** Has mailparser decode the files of a message. Most messages have none, and need no mailparser. */
function createFileReader(outline: Outline, spillDir: string): FileReader {
  const openContent = createPartContents(spillDir);
  const contents: ContentWriter[] = [];
  const ends: Promise<void>[] = [];
  let parser: MailParser | null = null;
  let finish: Promise<void> | null = null;

  const open = (): MailParser => {
    const opened = new MailParser(OPTIONS);
    opened.on('data', (data: AttachmentStream | MessageText) => {
      const part = data.type === 'attachment' ? outline.files[contents.length] : undefined;
      if (data.type !== 'attachment' || !part) return;
      const writer = openContent(part);
      contents.push(writer);
      ends.push(fillPart(data, writer, (error) => opened.destroy(error)));
    });
    finish = finished(opened);
    // it may fail before anybody awaits it
    finish.catch(() => {});
    return opened;
  };
  return {
    async write(bytes) {
      if (bytes.length === 0) return true;
      parser ??= open();
      if (parser.destroyed) return false;
      // mailparser emits what it failed with, and is not destroyed by that
      if (!parser.write(bytes)) await Promise.race([once(parser, 'drain'), finish]);
      return true;
    },
    async end() {
      if (parser && !parser.destroyed) parser.end();
      await finish;
      await Promise.all(ends);
      if (contents.length < outline.files.length) outline.isPartial = true;
    },
    close() {
      parser?.destroy();
      for (const writer of contents) writer.end();
    },
  };
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
