import { closeSync, fstatSync, mkdirSync, openSync, renameSync, writeSync } from 'node:fs';
import { join } from 'node:path';

export interface LogFile {
  path: string;
  write(chunk: Buffer): void;
  close(): void;
}

const MAX_BYTES = 20 * 1024 * 1024;

/** Appends to `<dir>/<name>.log`; past 20 MB that file becomes `<name>.log.1` and a new one is created. */
export function openLog(dir: string, name: string, maxBytes = MAX_BYTES): LogFile {
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  const path = join(dir, `${name}.log`);
  const open = (at: string) => openSync(at, 'a', 0o600);
  let file: number | undefined = open(path);
  let size = fstatSync(file).size;

  /** The next file is open before the present one is given up: where that fails, the present one stays in use. */
  function rotate(present: number): void {
    const next = open(`${path}.new`);
    try {
      renameSync(path, `${path}.1`);
      renameSync(`${path}.new`, path);
    } catch (error) {
      closeSync(next);
      throw error;
    }
    file = next;
    size = 0;
    closeSync(present);
  }

  return {
    path,
    write(chunk) {
      if (file === undefined) return;
      // a full disk, or too many open files, must not end the supervisor
      if (size > maxBytes) quietly(() => rotate(file as number));
      quietly(() => {
        writeSync(file as number, chunk);
        size += chunk.length;
      });
    },
    close() {
      if (file !== undefined) closeSync(file);
      file = undefined;
    },
  };
}

function quietly(work: () => void): void {
  try {
    work();
  } catch {
    // another chunk may find room
  }
}
