import { withDeadline } from '../async.ts';
import { PartUnavailable } from '../outage.ts';
import type { Storage } from '../storage/storage.ts';

/** How long a result waits for the deletion of what it no longer needs, ms. */
const DELETED_MS = 3_000;

/**
 * Deletes files of a send or a draft that are no longer needed. Never rejects, and takes 3 s at most: no result depends on it, and
 * housekeeping deletes what stays.
 */
export async function deleteUnneeded(
  { storage }: { storage: Pick<Storage, 'delete'> },
  keys: (string | null)[],
): Promise<void> {
  const named = keys.filter((key) => key !== null);
  const late = () => new PartUnavailable('storage');
  await withDeadline(DELETED_MS, storage.delete(named), late).catch(() => undefined);
}
