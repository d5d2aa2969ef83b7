import type { Client } from '@temporalio/client';
import { retryUntilAvailable } from '../async.ts';
import { type Config, ConfigError } from '../config/config.ts';
import type { Db } from '../db/driver/client.ts';
import { startHousekeeping } from '../maintenance/account-health.ts';
import { changeEncryptionKey, missingKey } from '../maintenance/encryption-key.ts';
import type { Logger } from '../runtime/logger.ts';
import { createSecrets } from '../security/secrets.ts';
import { codecKeys } from '../temporal/connect.ts';

export interface StartDeps {
  db: Db;
  client: Client;
  activities: { ensureAccounts(): Promise<void> };
  logger: Logger;
  shutdown: AbortSignal;
}

/**
 * Checks that the keys of the settings open what is stored, and the histories of running executions where `client` is given.
 * @throws ConfigError
 */
export async function checkKeys(config: Config, db: Db, client?: Client): Promise<void> {
  if (config.encryptionKeyIsLost) return;
  const secrets = createSecrets(codecKeys(config));
  const hasPrevious = config.encryptionKeyPrevious !== undefined;
  const reason = await missingKey({ db, secrets, hasPrevious, ...(client ? { client } : {}) });
  if (reason !== undefined) throw new ConfigError('ENCRYPTION_KEY', reason);
}

/** Whether an operator must correct a setting: repeating does not help. */
export const isConfigError = (error: unknown): boolean => error instanceof ConfigError;

/**
 * Runs the tasks of a worker's start in the background: starts the workflows that every account and the installation must
 * have, and reseals values with a changed ENCRYPTION_KEY.
 */
export function startOnce(config: Config, { db, client, activities, logger, shutdown }: StartDeps): void {
  const untilShutdown = { over: () => shutdown.aborted };
  for (const started of [
    retryUntilAvailable('accounts', logger, () => activities.ensureAccounts(), untilShutdown),
    retryUntilAvailable('housekeeping', logger, () => startHousekeeping(client), untilShutdown),
  ]) {
    started.catch((err: unknown) => logger.error({ err }, 'could not start account or housekeeping workflows'));
  }
  const secrets = createSecrets(codecKeys(config));
  const hasPrevious = config.encryptionKeyPrevious !== undefined;
  changeEncryptionKey({ db, client, logger, secrets, hasPrevious }).catch((err: unknown) =>
    logger.warn({ err }, 'could not check which encryption keys are in use; retried at next start'),
  );
}
