import { randomBytes } from 'node:crypto';
import {
  closeSync,
  existsSync,
  fsyncSync,
  linkSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { StartFailure } from './failure.ts';
import { endProcess, isRunning, handleOf, type ProcessHandle } from '../runtime/process-handle.ts';

/** The folder with everything that `npm start` stores, locked by one start at a time. */
export interface DataDir {
  path: string;
  /** The content of a file that only this user can read; a missing file is created with the result of `make`. */
  secret(name: string, make: () => string): string;
  /** The content of a file of `secret`; undefined when it is missing. */
  existingSecret(name: string): string | undefined;
  /** True for the first call with that name, over all starts. */
  isFirst(name: string): boolean;
  /** Stores the settings that name the servers that this start runs, for other programs that use them: `runningServers`. */
  recordServers(settings: Readonly<Record<string, string>>): void;
  /** Stores the STORAGE_URL of this start, null for the folder in this one: `lastStorageUrl`. */
  recordStorage(url: string | null): void;
  /** Stores which processes run: the next start ends those that a crash left. */
  recordProcesses(handles: readonly ProcessHandle[]): void;
  /** Unlocks the folder. */
  release(): void;
}

/**
 * Creates the folder if it is missing, locks it for this process, and ends processes that an earlier start left running
 * on it.
 * @throws StartFailure with one line when it cannot be used or another start has locked it
 */
export async function openDataDir(path: string, printLine: (line: string) => void): Promise<DataDir> {
  try {
    // root's Postgres runs as another user, who must be able to enter; each file in it is closed to others
    mkdirSync(path, { recursive: true, mode: process.getuid?.() === 0 ? 0o711 : 0o700 });
    takeLock(path);
  } catch (error) {
    if (error instanceof StartFailure) throw error;
    const code = (error as NodeJS.ErrnoException).code ?? 'unknown error';
    if (code === 'ENOSPC' || code === 'EDQUOT') {
      throw new StartFailure(`the disk of DATA_DIR ${path} is full (${code}): free some space.`);
    }
    throw new StartFailure(
      `DATA_DIR ${path} cannot be used (${code}): give this user the folder, or set DATA_DIR to another.`,
    );
  }
  await endLeftovers(path, printLine);
  return {
    path,
    secret(name, make) {
      const file = join(path, name);
      const existing = read(file);
      if (existing !== undefined) return existing;
      const value = make();
      writeSecret(file, value);
      return value;
    },
    existingSecret: (name) => read(join(path, name)),
    isFirst(name) {
      const file = join(path, name);
      if (existsSync(file)) return false;
      writeWhole(file, '');
      return true;
    },
    recordProcesses: (handles) => writeWhole(join(path, PROCESSES), JSON.stringify(handles)),
    recordServers: (settings) => writeWhole(join(path, SERVERS), JSON.stringify(settings)),
    recordStorage: (url) => writeWhole(join(path, STORAGE_URL), url ?? ''),
    release: () => {
      rmSync(join(path, SERVERS), { force: true });
      rmSync(join(path, PROCESSES), { force: true });
      rmSync(join(path, LOCK), { force: true });
    },
  };
}

/** The settings that name the servers of the `npm start` that runs on this folder; undefined: none does. */
export function runningServers(path: string): Record<string, string> | undefined {
  const holder = parse<ProcessHandle>(read(join(path, LOCK)));
  if (holder === undefined || !isRunning(holder)) return undefined;
  return parse<Record<string, string>>(read(join(path, SERVERS)));
}

/** The STORAGE_URL of the last `npm start` on this folder; undefined: unknown. */
export function lastStorageUrl(path: string): string | undefined {
  const url = read(join(path, STORAGE_URL));
  // the folder may have been moved since
  return url === '' ? pathToFileURL(join(path, 'storage')).href : url;
}

/** 32 random bytes, as ENCRYPTION_KEY takes them. */
export function newEncryptionKey(): string {
  return randomBytes(32).toString('base64');
}

const LOCK = 'lock';
const PROCESSES = 'processes.json';
const SERVERS = 'servers.json';
const STORAGE_URL = 'storage-url';

/** The lock is a file with the handle of its process; creating it as a link fails when it exists. */
function takeLock(path: string): void {
  const mine = join(path, `${LOCK}.${process.pid}`);
  const lock = join(path, LOCK);
  const content = JSON.stringify(handleOf(process.pid));
  try {
    writeFileSync(mine, content, { mode: 0o600 });
    for (let attempt = 0; attempt < 3; attempt++) {
      try {
        linkSync(mine, lock);
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
        const found = read(lock);
        const holder = parse<ProcessHandle>(found);
        if (holder !== undefined && isRunning(holder)) {
          throw new StartFailure(
            `DATA_DIR ${path} is in use by the start with pid ${holder.pid}: stop it, or set DATA_DIR to another.`,
          );
        }
        removeLock(lock, found, `${mine}.stale`);
      }
      if (read(lock) === content) return;
    }
    throw new StartFailure(`DATA_DIR ${path} is being locked by another start.`);
  } finally {
    rmSync(mine, { force: true });
  }
}

/** Removes a lock with this content, and not the one with which another start has replaced it since. */
function removeLock(lock: string, content: string | undefined, aside: string): void {
  try {
    renameSync(lock, aside);
    if (read(aside) !== content) linkSync(aside, lock);
  } catch (error) {
    // another start has removed it, or has locked the folder since: the next attempt sees which
    if (!/^(ENOENT|EEXIST)$/.test((error as NodeJS.ErrnoException).code ?? '')) throw error;
  } finally {
    rmSync(aside, { force: true });
  }
}

/** Ends what an earlier start on this folder could not end itself: only processes with the same pid and start time. */
async function endLeftovers(path: string, printLine: (line: string) => void): Promise<void> {
  const left = (parse<ProcessHandle[]>(read(join(path, PROCESSES))) ?? []).filter(isRunning);
  if (left.length === 0) return;
  printLine(`Ending ${left.length} processes that an earlier start left (${left.map(({ pid }) => pid).join(', ')}).`);
  await Promise.all(left.map((handle) => endProcess(handle, 'SIGINT', 6000)));
}

function read(file: string): string | undefined {
  if (!existsSync(file)) return undefined;
  try {
    return readFileSync(file, 'utf8').trim();
  } catch (error) {
    const { code = 'unknown error' } = error as NodeJS.ErrnoException;
    // deleted since
    if (code === 'ENOENT') return undefined;
    throw new StartFailure(`${file} cannot be read (${code}).`);
  }
}

/** A reader sees the old file or the new one, never half of it. `flush`: on the disk before it has its name. */
function writeWhole(file: string, content: string, flush = false): void {
  writeFileSync(`${file}.new`, `${content}\n`, { mode: 0o600, flush });
  renameSync(`${file}.new`, file);
}

/** Writes a file of `DataDir.secret`. It is there after a power loss, too: what is encrypted or locked with it may be. */
export function writeSecret(file: string, value: string): void {
  writeWhole(file, value, true);
  syncFolderOf(file);
}

/** That a file was added or removed is on the disk after a power loss, too. */
export function syncFolderOf(file: string): void {
  const folder = openSync(dirname(file), 'r');
  try {
    fsyncSync(folder);
  } finally {
    closeSync(folder);
  }
}

function parse<T>(text: string | undefined): T | undefined {
  try {
    return text === undefined ? undefined : (JSON.parse(text) as T);
  } catch {
    return undefined;
  }
}
