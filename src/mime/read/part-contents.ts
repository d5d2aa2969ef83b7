import { closeSync, mkdirSync, openSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import type { Part } from './part.ts';

const MAX_IN_MEMORY = 256 * 1024;

/** Receives the content of one part, piece by piece. */
export interface ContentWriter {
  write(bytes: Buffer): void;
  /** puts the content into the part; may be called twice */
  end(): void;
}

/**
 * Stores the contents of a message's files: 256 KB in memory, the rest in `spillDir`, which is created when needed.
 * @throws when a file cannot be written
 */
export function createPartContents(spillDir: string): (part: Part) => ContentWriter {
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
