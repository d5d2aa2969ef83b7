import { inLease, LeaseLost } from '../db/coordination/lease.ts';
import type { Db } from '../db/driver/client.ts';
import { accountsWithMerging, continueMerging } from '../mailbox/store/merging-threads.ts';

/** Less than the interval of the task, so that it ends soon when its worker stops. */
const BUSY_MS = 1_500;

/**
 * Gives rows of threads that are being merged their new thread, for a while: one batch of one account after the other, each
 * a short transaction. Other writers of an account have their turn between two of its batches.
 * @throws the error of the first account that has one, after the turns of the others
 */
export async function continueThreadMerges(db: Db): Promise<void> {
  const until = performance.now() + BUSY_MS;
  const waiting = await accountsWithMerging(db);
  const errors: unknown[] = [];
  while (performance.now() < until) {
    const accountId = waiting.shift();
    if (accountId === undefined) break;
    try {
      const isLeft = await inLease(db, { accountId, watchEpoch: null }, (tx) => continueMerging(tx, accountId));
      if (isLeft) waiting.push(accountId);
    } catch (error) {
      // a removal deletes the rows
      if (!(error instanceof LeaseLost)) errors.push(error);
    }
  }
  if (errors.length > 0) throw errors[0];
}
