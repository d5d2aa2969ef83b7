import { closeSync, mkdirSync, openSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import type { Part } from './part.ts';

const MAX_IN_MEMORY = 256 * 1024;
const MAX_TEXT = 10 * 1024 * 1024;

/** Takes the content of one part as it comes. */
export interface ContentWriter {
  write(bytes: Buffer): void;
  /** puts what came into the part; may be called twice */
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
