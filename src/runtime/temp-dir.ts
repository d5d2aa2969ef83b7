import { randomUUID } from 'node:crypto';
import { mkdirSync, readdirSync, rmSync, statSync } from 'node:fs';
import { mkdir, rm } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { handleOf } from './process-handle.ts';

/*
 * The folders with plain-text messages during parsing. `DATA_DIR/tmp` holds one folder for each worker process, named
 * `<host>~<pid>~<start of the process>~<random>`. A killed process leaves its folder behind: a running worker removes it
 * within a minute, or the next that starts. Whether workers on other machines (or in other containers) run is unknown:
 * their folders are removed after a day without a change.
 */

const NAME = /^(.+)~(\d+)~(.+)~[0-9a-f-]{36}$/;
const DAY_MS = 24 * 3600 * 1000;

/**
 * Creates the folder for this process's temporary files below `parent`, which is created if needed, and removes those of
 * dead processes. Returns its path.
 */
export function openTempDir(parent: string): string {
  mkdirSync(parent, { recursive: true, mode: 0o700 });
  removeLeftOvers(parent);
  const path = join(parent, [hostname(), process.pid, startOf(process.pid), randomUUID()].join('~'));
  mkdirSync(path, { mode: 0o700 });
  return path;
}

/**
 * Removes the folders of dead processes below `parent`: at every start, and periodically, since a worker may never
 * restart.
 */
export function removeLeftOvers(parent: string): void {
  for (const name of readdirSync(parent)) {
    if (isLeftOver(parent, name)) rmSync(join(parent, name), { recursive: true, force: true });
  }
}

/** Runs `work` with a new folder below `tempDir`, and removes the folder with its contents. */
export async function inTempFolder<T>(tempDir: string, work: (folder: string) => Promise<T>): Promise<T> {
  const folder = join(tempDir, `mail-${randomUUID()}`);
  await mkdir(folder, { recursive: true, mode: 0o700 });
  try {
    return await work(folder);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Whether a folder below `parent` belongs to a process that has died. Other names are ignored. */
function isLeftOver(parent: string, name: string): boolean {
  const [, host, pid, start] = NAME.exec(name) ?? [];
  if (host === undefined) return false;
  if (host !== hostname()) return newestChange(join(parent, name)) < Date.now() - DAY_MS;
  return startOf(Number(pid)) !== start;
}

/** When that process began, as a part of a file name; undefined when no process has that pid. */
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
