/*
 * `npm run rotate-key`: with a new ENCRYPTION_KEY, and the old one as ENCRYPTION_KEY_PREVIOUS, seals all stored secrets with
 * the new one and says whether the old one is still needed. Changes nothing else, and may run at any time after the workers have
 * started with the new one. Without DATABASE_URL it uses the servers of the `npm start` that runs on DATA_DIR.
 */
import { changeEncryptionKey, unusedKey } from './src/maintenance/encryption-key.ts';
import { type Config, ConfigError, type Env, loadConfig, loadStartConfig } from './src/config/config.ts';
import { openDatabase } from './src/db/open.ts';
import { runningServers } from './src/embedded/data-dir.ts';
import { createLogger } from './src/runtime/logger.ts';
import { createSecrets } from './src/security/secrets.ts';
import { codecKeys, lazyClient } from './src/temporal/connect.ts';

async function main(config: Config): Promise<void> {
  if (!config.encryptionKeyPrevious) {
    throw new ConfigError('ENCRYPTION_KEY_PREVIOUS', 'is not set: it must be the key that ENCRYPTION_KEY replaces');
  }
  const logger = createLogger('silent', 'rotate-key');
  const database = openDatabase(config.databaseUrl, { max: 2, logger });
  const { client, close } = lazyClient(config);
  try {
    const secrets = createSecrets(codecKeys(config));
    const reason = await unusedKey(database.db, secrets);
    if (reason !== undefined) throw new ConfigError('ENCRYPTION_KEY', reason);
    const report = await changeEncryptionKey({ db: database.db, client, secrets, logger, hasPrevious: true });
    process.stdout.write(`${JSON.stringify(report, null, 2)}\n`);
    const verdict = report.isFinished
      ? 'is not needed by anything stored: remove it, unless it is the next key'
      : 'is still needed: run this again later';
    process.stdout.write(`ENCRYPTION_KEY_PREVIOUS ${verdict}.\n`);
    process.exitCode = report.isFinished ? 0 : 3;
  } finally {
    await Promise.all([close(), database.close()]);
  }
}

/** The environment with the addresses of what `npm start` runs, where no setting names them. */
function withServers(env: Env): Env {
  const { dataDir, embedPostgres, embedTemporal } = loadStartConfig(env);
  if (!embedPostgres && !embedTemporal) return env;
  const servers = runningServers(dataDir);
  if (!servers && embedPostgres) {
    throw new ConfigError('DATABASE_URL', `is not set, and no npm start runs on DATA_DIR ${dataDir}: start it first`);
  }
  const given = Object.entries(env).filter(([, value]) => (value ?? '').trim() !== '');
  return { ...servers, ...Object.fromEntries(given) };
}

try {
  await main(loadConfig(withServers(process.env)));
} catch (error) {
  if (!(error instanceof ConfigError)) throw error;
  process.stderr.write(`${error.message}\n`);
  process.exitCode = 1;
}
