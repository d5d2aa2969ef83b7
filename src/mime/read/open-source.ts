import { closeSync, createReadStream, openSync, readSync } from 'node:fs';
import { setImmediate } from 'node:timers/promises';

const CHUNK = 256 * 1024;

/** A message, in memory or in a file, piece by piece: at most `maxBytes`. A caller that stops early must close it. */
export function openSource(
  source: Uint8Array | { path: string },
  maxBytes = Number.POSITIVE_INFINITY,
): AsyncIterable<Buffer> {
  if ('path' in source) {
    return createReadStream(source.path, {
      highWaterMark: CHUNK,
      ...(maxBytes < Infinity ? { end: maxBytes - 1 } : {}),
    });
  }
  const bytes = Buffer.from(source.buffer, source.byteOffset, Math.min(source.byteLength, maxBytes));
  return inPieces(bytes);
}

/** Yields to other work between pieces: large messages may be read in the main thread. */
async function* inPieces(bytes: Buffer): AsyncGenerator<Buffer> {
  for (let start = 0; start < bytes.length; start += CHUNK) {
    if (start > 0) await setImmediate();
    yield bytes.subarray(start, start + CHUNK);
  }
}

const LOCAL = /^(EACCES|EDQUOT|EIO|EMFILE|ENFILE|ENOENT|ENOMEM|ENOSPC|EPERM|EROFS)$/;

/** Whether a local file could not be read or written: the message is not the cause and is read again later. */
export function isReadFailure(error: unknown): boolean {
  return LOCAL.test(String((error as NodeJS.ErrnoException).code ?? ''));
}

/** The first `length` bytes of a message or file, read synchronously. */
export function readStart(source: Uint8Array | { path: string }, length: number): Buffer {
  if (!('path' in source)) return Buffer.from(source.buffer, source.byteOffset, Math.min(source.byteLength, length));
  const file = openSync(source.path, 'r');
  try {
    const bytes = Buffer.alloc(length);
    return bytes.subarray(0, readSync(file, bytes, 0, length, 0));
  } finally {
    closeSync(file);
  }
}
