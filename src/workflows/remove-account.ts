import { allHandlersFinished, condition, defineUpdate, proxyActivities, setHandler } from '@temporalio/workflow';
import type { RemoveActivities } from '../activities/remove.ts';
import { QUEUES, UPDATES } from './names.ts';
import { trackState } from './run-state.ts';
import { setSearchAttributes } from './search-attributes.ts';

/*
 * state      what happens                                                       next
 * marking    the account is not found any more, its credentials are deleted     deleting
 * deleting   its runs are cancelled; rows and files are deleted                 waiting; the update `deleted` returns
 * waiting    its runs close their connections and end, or are terminated        sweeping
 * sweeping   what they stored meanwhile is deleted, then the account's row      the end
 */

/** Returns when the mail of the account is deleted. */
export const deleted = defineUpdate(UPDATES.deleted);

const { beginRemoval, stopRuns, finishRemoval } = proxyActivities<RemoveActivities>({
  taskQueue: QUEUES.commands,
  startToCloseTimeout: '30s',
  retry: { initialInterval: '500ms', maximumInterval: '30s' },
});
const { deleteContents, awaitRuns } = proxyActivities<RemoveActivities>({
  taskQueue: QUEUES.commands,
  startToCloseTimeout: '1h',
  heartbeatTimeout: '30s',
  retry: { initialInterval: '500ms', maximumInterval: '30s' },
});

/** Removes an account in steps that can each be done again. */
export async function removeAccount({ accountId }: { accountId: string }): Promise<void> {
  const shown = trackState('marking');
  let done = false;
  setHandler(deleted, () => condition(() => done));
  setSearchAttributes(accountId);
  if (await beginRemoval({ accountId })) {
    shown.enter('deleting');
    await stopRuns({ accountId });
    await deleteContents({ accountId });
  }
  done = true;
  shown.enter('waiting');
  await awaitRuns({ accountId });
  shown.enter('sweeping');
  await deleteContents({ accountId });
  await finishRemoval({ accountId });
  shown.enter('removed');
  await condition(allHandlersFinished);
}
