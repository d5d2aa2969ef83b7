import { closeSync, openSync, readSync } from 'node:fs';

/** The first `length` bytes of a message or file, read in one go. */
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
