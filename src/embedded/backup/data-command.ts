import { join } from 'node:path';
import type { StartConfig } from '../../config/config.ts';
import { unlessAborted } from '../../async.ts';
import { openDataDir } from '../data-dir.ts';
import { StartFailure } from '../failure.ts';
import type { Report } from '../report.ts';
import { startPostgres } from '../servers.ts';
import { createSupervisor } from '../supervise.ts';

/** A data folder on which no `npm start` runs, locked for a command. */
export interface DataCommand {
  /** Starts its Postgres and resolves to the URL; it runs until the command ends. */
  startPostgres(): Promise<string>;
  /** Stops it before the command ends, also while it starts: nothing uses its files then. */
  stopPostgres(): Promise<void>;
}

/**
 * Runs a command on the data folder while no `npm start` does, and stops what it has started.
 * @throws StartFailure with one line when a start runs on the folder, or Postgres does not start
 */
export async function onDataDir<T>(
  settings: StartConfig,
  report: Report,
  work: (command: DataCommand) => Promise<T>,
): Promise<T> {
  const dataDir = await openDataDir(settings.dataDir, report.line);
  const supervisor = createSupervisor({
    logDir: join(dataDir.path, 'logs'),
    printLine: report.line,
    onChange: (handles) => dataDir.recordProcesses(handles),
  });
  let starting: Promise<string> | undefined;
  let stopped: Promise<void> | undefined;
  const start = () => (starting = startPostgres({ settings, supervisor, report }));
  const stop = async () => {
    await supervisor.stop();
    await starting?.catch(() => undefined);
  };
  const stopPostgres = () => (stopped ??= stop());
  try {
    return await work({ startPostgres: start, stopPostgres });
  } finally {
    await stopPostgres();
    dataDir.release();
  }
}

/**
 * Runs work that a signal aborts. The process ends when the work has undone what it must.
 * @throws StartFailure with one line when it was aborted
 */
export async function interruptible<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const interrupted = new AbortController();
  const abort = (name: string) => interrupted.abort(new StartFailure(`Interrupted (${name}).`));
  // not once: npm passes on the Ctrl-C that the terminal has sent already
  for (const name of SIGNALS) process.on(name, abort);
  try {
    return await work(interrupted.signal);
  } catch (error) {
    interrupted.signal.throwIfAborted();
    throw error;
  } finally {
    for (const name of SIGNALS) process.off(name, abort);
  }
}

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/** The result of `work`, or a rejection as soon as the signal aborts; the work then continues, and its result is ignored. */
export async function unlessInterrupted<T>(signal: AbortSignal, work: Promise<T>): Promise<T> {
  const result = await unlessAborted(work, signal);
  signal.throwIfAborted();
  return result as T;
}
