import { join } from 'node:path';
import type { StartConfig } from '../../config/config.ts';
import { openDataDir } from '../data-dir.ts';
import type { Report } from '../report.ts';
import { startPostgres } from '../servers.ts';
import { createSupervisor } from '../supervise.ts';

/** A data folder on which no `npm start` runs, locked for a command. */
export interface DataCommand {
  /** Starts its Postgres and resolves to the URL; it runs until the command ends. */
  startPostgres(): Promise<string>;
  /** Stops it before the command ends. */
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
  let stopped: Promise<void> | undefined;
  const stopPostgres = () => (stopped ??= supervisor.stop());
  const stop = async () => {
    await stopPostgres();
    dataDir.release();
  };
  const endOnSignal = () => void stop().finally(() => process.exit(1));
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, endOnSignal);
  try {
    return await work({ startPostgres: () => startPostgres({ settings, supervisor, report }), stopPostgres });
  } finally {
    await stop();
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.off(signal, endOnSignal);
  }
}
