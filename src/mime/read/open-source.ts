import { closeSync, createReadStream, openSync, readSync } from 'node:fs';
import { setImmediate } from 'node:timers/promises';

const CHUNK = 256 * 1024;

/** A message, in memory or in a file, piece by piece: at most `maxBytes`. Whoever stops reading before its end closes it. */
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

/** Large messages may be read in the main thread: other work has its turn between the pieces. */
async function* inPieces(bytes: Buffer): AsyncGenerator<Buffer> {
  for (let start = 0; start < bytes.length; start += CHUNK) {
    if (start > 0) await setImmediate();
    yield bytes.subarray(start, start + CHUNK);
  }
}

const LOCAL = /^(EACCES|EDQUOT|EIO|EMFILE|ENFILE|ENOENT|ENOMEM|ENOSPC|EPERM|EROFS)$/;

/** Whether a file could not be read or written here: no fault of the message, which is read again later. */
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
