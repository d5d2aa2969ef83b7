import { existsSync, readFileSync } from 'node:fs';
import { rename, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { StartFailure } from '../failure.ts';
import { syncFolder } from './archive.ts';

/*
 * Files and folders that a restore replaces together. What it moves is in a file from before the first move until the restored
 * store is marked: after kill -9 too nothing starts on half of a restore, and the next one puts everything back first.
 */

/** A path that gets what is at `by`; without `by`, what is there only gets another name. */
export interface Replacement {
  path: string;
  by?: string;
}

interface Move {
  path: string;
  /** the new name of what was at `path` */
  as: string;
  /** something was at `path` */
  existed: boolean;
}

interface Unfinished {
  backup: string;
  moves: Move[];
}

const fileOf = (dataDir: string) => join(dataDir, 'restore-unfinished');
/** The record of what is about to be replaced, until it is complete. */
export const newRecordOf = (dataDir: string) => `${fileOf(dataDir)}.new`;

/** Replaces the paths; resolves to the new names of what was there. `finishSwap` or `undoSwap` must follow. */
export async function swapIn(dataDir: string, backup: string, replacements: readonly Replacement[]): Promise<string[]> {
  const suffix = `.replaced-${new Date().toISOString().replace(/[:.]/g, '')}`;
  const moves = replacements.map(({ path }) => ({ path, as: `${path}${suffix}`, existed: existsSync(path) }));
  await record(dataDir, { backup, moves });
  for (const { path, as, existed } of moves) {
    if (existed) await rename(path, as);
    const by = replacements.find((each) => each.path === path)?.by;
    if (by !== undefined) await rename(by, path);
  }
  for (const folder of new Set(moves.map(({ path }) => dirname(path)))) await syncFolder(folder);
  return moves.filter(({ existed }) => existed).map(({ as }) => as);
}

/** What was replaced stays under its new names. */
export async function finishSwap(dataDir: string): Promise<void> {
  await rm(fileOf(dataDir), { force: true });
  // a record that came back would undo the restore
  await syncFolder(dataDir);
}

/**
 * Puts back what an unfinished restore has replaced, wherever it ended; does nothing without one.
 * @throws StartFailure, before it changes anything, when something that it must put back is not there
 */
export async function undoSwap(dataDir: string): Promise<void> {
  const found = unfinished(dataDir);
  if (found === undefined) return;
  for (const { path, as, existed } of found.moves) {
    if (!existed || existsSync(as) || existsSync(path)) continue;
    throw new StartFailure(
      `${as}, which an unfinished restore must put back, is not there: mount its disk, or put it back, and run this again.`,
    );
  }
  const changed = new Set<string>();
  for (const { path, as, existed } of found.moves) {
    const isAway = existsSync(as);
    if (existed && !isAway) continue;
    await rm(path, { recursive: true, force: true });
    if (isAway) await rename(as, path);
    if (existsSync(dirname(path))) changed.add(dirname(path));
  }
  for (const folder of changed) await syncFolder(folder);
  await finishSwap(dataDir);
}

/** @throws StartFailure while a restore is unfinished */
export function refuseUnfinishedRestore(dataDir: string): void {
  const found = unfinished(dataDir);
  if (found === undefined) return;
  throw new StartFailure(
    `A restore into ${dataDir} has not finished: run it again, npm run restore -- ${found.backup}. ` +
      'It puts back what was there before it begins.',
  );
}

function unfinished(dataDir: string): Unfinished | undefined {
  return existsSync(fileOf(dataDir)) ? (JSON.parse(readFileSync(fileOf(dataDir), 'utf8')) as Unfinished) : undefined;
}

/** On the disk before the first move, also when the power is lost. */
async function record(dataDir: string, content: Unfinished): Promise<void> {
  await writeFile(newRecordOf(dataDir), JSON.stringify(content), { mode: 0o600, flush: true });
  await rename(newRecordOf(dataDir), fileOf(dataDir));
  await syncFolder(dataDir);
}
