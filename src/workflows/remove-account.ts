import {
  allHandlersFinished,
  condition,
  defineUpdate,
  patched,
  proxyActivities,
  setHandler,
  sleep,
} from '@temporalio/workflow';
import type { RemoveActivities } from '../activities/remove.ts';
import { waitAfter } from './backoff.ts';
import { QUEUES, UPDATES } from './names.ts';
import { trackState } from './run-state.ts';
import { setSearchAttributes } from './search-attributes.ts';

/*
 * state      what happens                                                       next
 * marking    readers no longer find the account, its credentials are deleted    deleting
 * deleting   its runs are cancelled; rows and files are deleted                 waiting; the update `deleted` returns
 * waiting    its runs close their connections and end, or are terminated        sweeping
 * sweeping   rows and files that they stored until then are deleted             erasing
 * erasing    its last events are delivered, for an hour at most; their content  final
 *            and its runs in Temporal are deleted, then the account's row
 */

/** Returns when the mail of the account is deleted. */
export const deleted = defineUpdate(UPDATES.deleted);

const { beginRemoval, stopRuns, finishRemoval } = proxyActivities<RemoveActivities>({
  taskQueue: QUEUES.commands,
  startToCloseTimeout: '30s',
  retry: { initialInterval: '500ms', maximumInterval: '30s' },
});
const { deleteContents, awaitRuns, eraseLog, deleteRuns } = proxyActivities<RemoveActivities>({
  taskQueue: QUEUES.commands,
  startToCloseTimeout: '1h',
  heartbeatTimeout: '30s',
  retry: { initialInterval: '500ms', maximumInterval: '30s' },
});

/** Removes an account in steps, each of which is idempotent. */
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
  if (patched('erase-log')) {
    shown.enter('erasing');
    await erase(accountId);
    // a running send or save of a draft may have stored its message after the previous sweep
    if (patched('sweep-last')) await deleteContents({ accountId });
  }
  await finishRemoval({ accountId });
  shown.enter('removed');
  await condition(allHandlersFinished);
}

/** How long an endpoint may take to get the last events of the account, `account.remove` excepted. */
const LAST_EVENTS_MS = 60 * 60_000;
/** Between two checks in that time, and afterwards, when at most `account.remove` is waited for. */
const BACKOFF = { firstMs: 2_000, longestMs: 30_000 };
const AFTERWARDS_MS = 60 * 60_000;

/** Erases the log of the account until nothing is left, which takes until `account.remove` was delivered or given up. */
async function erase(accountId: string): Promise<void> {
  const began = Date.now();
  for (let checks = 1; ; checks++) {
    const skipPending = Date.now() - began >= LAST_EVENTS_MS;
    const isErased = await eraseLog({ accountId, skipPending });
    // deliveries are runs, too: checked again while one is running
    if ((await deleteRuns({ accountId, isErased })) && isErased) break;
    await sleep(skipPending ? AFTERWARDS_MS : waitAfter(checks, BACKOFF), {
      summary: 'until its last events are delivered',
    });
  }
  if (!patched('look-again')) return;
  do await sleep(LISTED_MS, { summary: 'until Temporal lists its last runs' });
  while (!(await deleteRuns({ accountId, isErased: true })));
}

/** Temporal lists a run shortly after its start, possibly only after it has delivered the last event and ended. */
const LISTED_MS = 10_000;
