import { randomUUID } from 'node:crypto';
import { mkdirSync, readdirSync, rmSync, statSync } from 'node:fs';
import { mkdir, rm } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { handleOf } from './process-handle.ts';

/*
 * Where mail is in plain text while it is read. `DATA_DIR/tmp` holds one folder for each worker process, named
 * `<host>~<pid>~<start of the process>~<random>`. A process that is killed leaves its folder behind: the next worker that
 * starts removes it, and so do those that run, within a minute. Workers on other machines (or in other containers) cannot be asked whether they run: their folders
 * are removed once nothing in them has changed for a day.
 */

const NAME = /^(.+)~(\d+)~(.+)~[0-9a-f-]{36}$/;
const DAY_MS = 24 * 3600 * 1000;

/**
 * Makes the folder for this process's temporary files below `parent`, which is made when needed, and removes those that
 * dead processes left there. Returns its path.
 */
export function openTempDir(parent: string): string {
  mkdirSync(parent, { recursive: true, mode: 0o700 });
  removeLeftOvers(parent);
  const path = join(parent, [hostname(), process.pid, startOf(process.pid), randomUUID()].join('~'));
  mkdirSync(path, { mode: 0o700 });
  return path;
}

/** Removes what dead processes left below `parent`; at every start and now and then, since a worker may never come back. */
export function removeLeftOvers(parent: string): void {
  for (const name of readdirSync(parent)) {
    if (isLeftOver(parent, name)) rmSync(join(parent, name), { recursive: true, force: true });
  }
}

/** Runs `work` with a folder of its own below `tempDir`, and removes the folder with all that is in it. */
export async function inTempFolder<T>(tempDir: string, work: (folder: string) => Promise<T>): Promise<T> {
  const folder = join(tempDir, `mail-${randomUUID()}`);
  await mkdir(folder, { recursive: true, mode: 0o700 });
  try {
    return await work(folder);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Whether a folder below `parent` belongs to a process that has died. What bears no process's name is left alone. */
function isLeftOver(parent: string, name: string): boolean {
  const [, host, pid, start] = NAME.exec(name) ?? [];
  if (host === undefined) return false;
  if (host !== hostname()) return newestChange(join(parent, name)) < Date.now() - DAY_MS;
  return startOf(Number(pid)) !== start;
}

/** When that process began, as a part of a file name; undefined when there is none with that pid. */
function startOf(pid: number): string | undefined {
  return handleOf(pid)?.began.replace(/\W+/g, '-');
}

/** When the folder itself, or a folder or file right in it, changed last (ms). */
function newestChange(folder: string): number {
  try {
    const paths = [folder, ...readdirSync(folder).map((name) => join(folder, name))];
    const changes = paths.map((path) => statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0);
    return changes.reduce((newest, ms) => Math.max(newest, ms));
  } catch {
    return Date.now();
  }
}
