import { closeSync, fstatSync, mkdirSync, openSync, renameSync, writeSync } from 'node:fs';
import { join } from 'node:path';

export interface LogFile {
  path: string;
  write(chunk: Buffer): void;
  close(): void;
}

const MAX_BYTES = 20 * 1024 * 1024;

/** Appends to `<dir>/<name>.log`; past 20 MB that becomes `<name>.log.1` and a new file is begun. */
export function openLog(dir: string, name: string, maxBytes = MAX_BYTES): LogFile {
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  const path = join(dir, `${name}.log`);
  const open = () => openSync(path, 'a', 0o600);
  let file: number | undefined = open();
  let size = fstatSync(file).size;
  return {
    path,
    write(chunk) {
      if (file === undefined) return;
      try {
        if (size > maxBytes) {
          renameSync(path, `${path}.1`);
          closeSync(file);
          file = open();
          size = 0;
        }
        writeSync(file, chunk);
        size += chunk.length;
      } catch {
        // a full disk must not end the supervisor
      }
    },
    close() {
      if (file !== undefined) closeSync(file);
      file = undefined;
    },
  };
}
