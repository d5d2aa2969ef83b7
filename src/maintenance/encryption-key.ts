import type { Client } from '@temporalio/client';
import type { Db } from '../db/driver/client.ts';
import { encryptionKeySince, knownEncryptionKey } from '../db/coordination/installation.ts';
import { countSealed, resealAll } from './reseal.ts';
import { DAY, MINUTE } from '../duration.ts';
import type { Logger } from '../runtime/logger.ts';
import type { Secrets } from '../security/secrets.ts';

export interface KeyDeps {
  db: Db;
  client: Pick<Client, 'workflow'>;
  secrets: Secrets;
  logger: Logger;
  /** ENCRYPTION_KEY_PREVIOUS is set */
  hasPrevious: boolean;
}

/** The progress of a change of ENCRYPTION_KEY. */
export interface KeyReport {
  /** values resealed with the current key by this run */
  resealed: number;
  /** values that only the previous key opens */
  previous: number;
  /** values that no key of the settings opens */
  unreadable: number;
  /**
   * running workflow executions that are older than the current key, or began while processes were restarted with it: their
   * histories are encrypted with the previous one, or may be
   */
  olderExecutions: number;
  /** until then idempotency keys of calls made before the change are compared with the previous key; null: no longer */
  repeatedCallsUntil: Date | null;
  /** nothing stored needs the previous key: it was replaced long enough ago, or it is the next one, which is not in use yet */
  isFinished: boolean;
}

/** How long a call may be repeated with its Idempotency-Key. */
const REPEATED_MS = DAY;

/** While processes are restarted one after another, those that still have the previous key start executions. */
const RESTARTS_MS = 15 * MINUTE;

/**
 * Why a process must not start with these keys; undefined: it may. Stored secrets that no key of the settings opens, or running
 * executions from before the key was changed, need the key that is missing. `client`: left out, executions are not looked at.
 */
export async function missingKey({
  db,
  client,
  secrets,
  hasPrevious,
}: Pick<KeyDeps, 'db' | 'secrets' | 'hasPrevious'> & Partial<Pick<KeyDeps, 'client'>>): Promise<string | undefined> {
  const { unreadable } = await countSealed(db, secrets);
  if (unreadable > 0) return `does not open ${unreadable} stored secrets: ${REMEDY}`;
  if (client === undefined || hasPrevious) return undefined;
  const known = await knownEncryptionKey(db);
  if (known === undefined) return undefined;
  const since = known.keyId === secrets.keyId ? known.since : new Date();
  const older = await countOlderExecutions(client, since);
  return older > 0 ? `does not open ${older} running workflow executions: ${REMEDY}` : undefined;
}

/**
 * Why nothing may be resealed with the current key of these settings; undefined: it may. Processes that have another one could not
 * read it.
 */
export async function unusedKey(db: Db, secrets: Secrets): Promise<string | undefined> {
  const known = await knownEncryptionKey(db);
  if (known === undefined || known.keyId === secrets.keyId) return undefined;
  return 'is not the key that the workers last started with: restart them with it first';
}

const REMEDY =
  'set the key that was used before as ENCRYPTION_KEY_PREVIOUS; ' +
  'if it is lost, set ENCRYPTION_KEY_PREVIOUS=lost, and connect accounts and endpoints again';

async function countOlderExecutions(client: KeyDeps['client'], since: Date): Promise<number> {
  if (since.getTime() === 0) return 0;
  const query = `ExecutionStatus = "Running" AND StartTime < "${since.toISOString()}"`;
  return (await client.workflow.count(query)).count;
}

/**
 * Reseals with the current key all values sealed with the previous one, and reports whether that one is still needed.
 * Safe while the product runs, and in several processes.
 */
export async function changeEncryptionKey({ db, client, secrets, logger, hasPrevious }: KeyDeps): Promise<KeyReport> {
  const since = await encryptionKeySince(db, secrets.keyId, new Date());
  const found = hasPrevious ? await resealAll(db, secrets) : [];
  const { previous, unreadable } = await countSealed(db, secrets);
  // only while the previous key can be used: afterwards those with the current one would be reported as unreadable
  const usedAlone = hasPrevious && since.getTime() > 0 ? new Date(since.getTime() + RESTARTS_MS) : since;
  const olderExecutions = await countOlderExecutions(client, usedAlone);
  const until = new Date(since.getTime() + REPEATED_MS);
  const repeatedCallsUntil = until.getTime() > Date.now() ? until : null;
  const report: KeyReport = {
    resealed: found.reduce((sum, { resealed }) => sum + resealed, 0),
    previous,
    unreadable,
    olderExecutions,
    repeatedCallsUntil,
    isFinished: previous === 0 && olderExecutions === 0 && repeatedCallsUntil === null,
  };
  if (unreadable > 0) logger.error(report, 'stored secrets unreadable with the configured keys');
  if (hasPrevious) {
    logger.info(
      report,
      report.isFinished
        ? 'ENCRYPTION_KEY_PREVIOUS not needed by anything stored'
        : 'ENCRYPTION_KEY_PREVIOUS still needed',
    );
  } else if (olderExecutions > 0) {
    logger.error(report, 'ENCRYPTION_KEY_PREVIOUS missing: running workflows need it');
  }
  return report;
}
