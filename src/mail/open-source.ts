import { createReadStream } from 'node:fs';
import { Readable } from 'node:stream';

const CHUNK = 256 * 1024;

/** A message, in memory or in a file, as a stream of at most `maxBytes`. */
export function openSource(source: Uint8Array | { path: string }, maxBytes = Number.POSITIVE_INFINITY): Readable {
  if ('path' in source) {
    return createReadStream(source.path, {
      highWaterMark: CHUNK,
      ...(maxBytes < Infinity ? { end: maxBytes - 1 } : {}),
    });
  }
  const bytes = Buffer.from(source.buffer, source.byteOffset, Math.min(source.byteLength, maxBytes));
  const pieces: Buffer[] = [];
  for (let start = 0; start < bytes.length; start += CHUNK) pieces.push(bytes.subarray(start, start + CHUNK));
  return Readable.from(pieces, { objectMode: false });
}

/** The source's file cannot be read: that is the caller's trouble, not the message's. */
export function isReadFailure(error: unknown): boolean {
  const { syscall } = error as NodeJS.ErrnoException;
  return syscall === 'open' || syscall === 'read';
}
