import {
  allHandlersFinished,
  condition,
  defineUpdate,
  proxyActivities,
  setCurrentDetails,
  setHandler,
} from '@temporalio/workflow';
import type { RemoveActivities } from '../activities/remove.ts';
import { QUEUES, UPDATES } from './names.ts';
import { setSearchAttributes } from './search-attributes.ts';

/*
 * state      what happens                                                     next
 * marking    the account is gone for everybody, its credentials are wiped     wiping
 * wiping     its runs are told to end; rows and files are deleted             wiped: callers are answered
 * waiting    its runs let go of the mailbox, or are ended by force            sweeping
 * sweeping   what they had left on disk meanwhile is deleted, then its row    the end
 */

/** Answers when everything of the account is deleted. */
export const wiped = defineUpdate(UPDATES.wiped);

const { beginRemoval, stopRuns, finishRemoval } = proxyActivities<RemoveActivities>({
  taskQueue: QUEUES.commands,
  startToCloseTimeout: '30s',
  retry: { initialInterval: '500ms', maximumInterval: '30s' },
});
const { wipeAccount, awaitRuns } = proxyActivities<RemoveActivities>({
  taskQueue: QUEUES.commands,
  startToCloseTimeout: '1h',
  heartbeatTimeout: '30s',
  retry: { initialInterval: '500ms', maximumInterval: '30s' },
});

/** Removes an account in steps that can each be done again. */
export async function removeAccount({ accountId }: { accountId: string }): Promise<void> {
  let done = false;
  setHandler(wiped, () => condition(() => done));
  setSearchAttributes(accountId);
  setCurrentDetails('marking');
  if (await beginRemoval({ accountId })) {
    setCurrentDetails('wiping');
    await stopRuns({ accountId });
    await wipeAccount({ accountId });
  }
  done = true;
  setCurrentDetails('waiting for the runs of the account to end');
  await awaitRuns({ accountId });
  await wipeAccount({ accountId });
  await finishRemoval({ accountId });
  setCurrentDetails('removed');
  await condition(allHandlersFinished);
}
