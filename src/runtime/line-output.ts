import { write, writeSync } from 'node:fs';

/** Without a reader, this many bytes stay in memory; further ones are dropped. */
const UNREAD_LENGTH = 4 * 1024 * 1024;
/** A pipe that is full is written to again after this, ms. */
const FULL_PIPE_MS = 100;
/** An exit waits for the reader of a full pipe at most so long, ms; the system itself waits when the pipe is a blocking one. */
const EXIT_MS = 2000;
const LINE_END = 10;

export interface LineOutput {
  /** Writes whole lines as soon as those before them are written. Never throws, never waits. */
  write(lines: string): void;
  /** Writes what still waits, and these lines, before it returns; for an exit. Never throws. */
  writeLast(lines: string): void;
}

/**
 * Writes to an open file, a pipe or a terminal. What cannot be written (a full disk, a reader that has exited) is dropped, and
 * the next lines are tried again: the process continues whatever becomes of its lines. Pino's own destination ends the process
 * at such an error, or never lets it end.
 */
export function openLineOutput(fd: number): LineOutput {
  const queue = createQueue();
  let isWriting = false;
  const writeNext = () => {
    const chunk = queue.take();
    isWriting = chunk !== undefined;
    if (chunk === undefined) return;
    write(fd, chunk, (error, length) => {
      if (!error) queue.written(chunk, length);
      if (error && queue.failed(chunk, error)) setTimeout(writeNext, FULL_PIPE_MS).unref();
      else writeNext();
    });
  };
  return {
    write(lines) {
      queue.add(lines);
      if (!isWriting) writeNext();
    },
    writeLast(lines) {
      queue.add(lines);
      const until = performance.now() + EXIT_MS;
      for (let chunk = queue.take(); chunk !== undefined; chunk = queue.take()) {
        try {
          queue.written(chunk, writeSync(fd, chunk));
        } catch (error) {
          if (!queue.failed(chunk, error as NodeJS.ErrnoException)) continue;
          if (performance.now() > until) return;
          Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, FULL_PIPE_MS);
        }
      }
    },
  };
}

/** What waits to be written. What is taken is given back as written in part, or as failed. */
function createQueue() {
  const waiting: Buffer[] = [];
  let bytes = 0;
  /** what is written ends within a line */
  let isInLine = false;
  /** the rest of that line was dropped */
  let isCut = false;
  const putBack = (chunk: Buffer) => {
    waiting.unshift(chunk);
    bytes += chunk.length;
  };
  return {
    add(lines: string) {
      const chunk = Buffer.from(lines);
      if (chunk.length === 0 || bytes + chunk.length > UNREAD_LENGTH) return;
      waiting.push(chunk);
      bytes += chunk.length;
    },
    take() {
      const chunk = waiting.shift();
      bytes -= chunk?.length ?? 0;
      if (chunk === undefined || !isCut) return chunk;
      isCut = false;
      return Buffer.concat([Buffer.of(LINE_END), chunk]);
    },
    written(chunk: Buffer, length: number) {
      if (length > 0) isInLine = chunk[length - 1] !== LINE_END;
      if (length < chunk.length) putBack(chunk.subarray(length));
    },
    /** Returns true when the chunk can be written later: a pipe is full. Drops it otherwise. */
    failed(chunk: Buffer, { code }: NodeJS.ErrnoException): boolean {
      const isPipeFull = code === 'EAGAIN' || code === 'EBUSY';
      if (isPipeFull) putBack(chunk);
      else isCut = isInLine;
      return isPipeFull;
    },
  };
}
