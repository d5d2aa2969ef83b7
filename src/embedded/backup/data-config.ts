import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  type Config,
  ConfigError,
  type Env,
  loadConfig,
  loadStartConfig,
  type StartConfig,
} from '../../config/config.ts';
import { lastStorageUrl, runningServers } from '../data-dir.ts';
import { StartFailure } from '../failure.ts';
import { createReport, type Report } from '../report.ts';
import { checkStorageFolder } from '../storage-folder.ts';

/** The settings of a command on what `npm start` stores. */
export interface DataConfig {
  settings: StartConfig;
  config: Config;
  /** where the encryption key in force is */
  keyFile: string;
  /** URL of the database that a running `npm start` has embedded */
  runningUrl: string | undefined;
  /** STORAGE_URL of the last `npm start`; undefined: of a version that did not record it, or none */
  startedStorageUrl: string | undefined;
}

/** Not used: the address of a Postgres that does not run yet. */
const NO_DATABASE = 'postgresql://127.0.0.1/none';

/**
 * Reads the settings, where none are given with the key that `npm start` has stored and the storage that it had last.
 * @throws ConfigError
 */
export function dataConfig(env: Env): DataConfig {
  const settings = loadStartConfig(env);
  const running = settings.embedPostgres ? runningServers(settings.dataDir) : undefined;
  const file = join(settings.dataDir, 'encryption-key');
  const known: Record<string, string> = { TEMPORAL_ADDRESS: '127.0.0.1:7233' };
  if (settings.embedPostgres) known['DATABASE_URL'] = running?.['DATABASE_URL'] ?? NO_DATABASE;
  if (settings.encryptionKeyIsOurs && existsSync(file)) known['ENCRYPTION_KEY'] = readFileSync(file, 'utf8').trim();
  if (settings.encryptionKeyIsOurs && known['ENCRYPTION_KEY'] === undefined) {
    throw new ConfigError(
      'ENCRYPTION_KEY',
      `is not set, and ${file} does not exist: set it as for npm start, or put the key there`,
    );
  }
  const startedStorageUrl = lastStorageUrl(settings.dataDir);
  if (startedStorageUrl !== undefined) known['STORAGE_URL'] = startedStorageUrl;
  const given = Object.entries(env).filter(([, value]) => (value ?? '').trim() !== '');
  const config = loadConfig({ ...known, ...Object.fromEntries(given) });
  if (settings.embedPostgres) checkStorageFolder(settings.dataDir, config.storageUrl);
  return {
    settings,
    config,
    keyFile: settings.encryptionKeyIsOurs ? file : 'ENCRYPTION_KEY',
    runningUrl: running?.['DATABASE_URL'],
    startedStorageUrl,
  };
}

/** Says that DATABASE_URL names a Postgres that these commands leave to its own tools. */
export const OWN_POSTGRES = (what: string): ConfigError =>
  new ConfigError('DATABASE_URL', `names a Postgres of your own: ${what} (docs/operating.md)`);

/** Runs a command of one line; false: it was called wrongly. Failures with a reason end the process with code 1 and that line. */
export async function runDataCommand(
  usage: string,
  env: Env,
  main: (call: { args: string[]; env: Env; report: Report }) => Promise<boolean>,
): Promise<void> {
  try {
    if (await main({ args: process.argv.slice(2), env, report: createReport(process.stdout) })) return;
    process.stderr.write(`${usage}\n`);
  } catch (error) {
    if (!(error instanceof ConfigError || error instanceof StartFailure)) throw error;
    process.stderr.write(`${error.message}\n`);
  }
  process.exitCode = 1;
}
