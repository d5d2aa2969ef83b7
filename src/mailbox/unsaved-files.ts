import { unreferencedKeys } from '../db/coordination/stored-objects.ts';
import type { SyncContext } from './context.ts';

/*
 * Files are written to storage under an email's id before its rows commit. Files of a failed save are deleted here; files
 * of a killed process, by housekeeping.
 */

type Deps = Pick<SyncContext, 'db' | 'storage' | 'logger'> & { account: { id: string } };

/**
 * Deletes the files of a failed save. The COMMIT may have succeeded without its response having arrived, so the rows
 * decide which files are needed. Does not throw: housekeeping deletes what cannot be deleted now.
 */
export async function deleteUnreferenced({ db, storage, logger, account }: Deps, keys: string[]): Promise<void> {
  if (keys.length === 0) return;
  try {
    await storage.delete(await unreferencedKeys(db, account.id, keys));
  } catch (err) {
    logger.warn({ err, accountId: account.id }, 'could not delete orphaned files; housekeeping will');
  }
}
