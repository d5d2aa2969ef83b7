import { CancellationScope, proxyActivities, sleep } from '@temporalio/workflow';
import type { AccountActivities } from '../activities/account.ts';
import type { ConnectActivities } from '../activities/connect.ts';
import type { DeviceActivities } from '../activities/device-sign-in.ts';
import { readFailure } from './failure.ts';
import { QUEUES } from './names.ts';
import { classOf, trackState } from './run-state.ts';
import { setSearchAttributes } from './search-attributes.ts';

/*
 * state                   what happens                               next
 * waiting for the owner   the provider is asked at its interval      verifying the logins  the owner agreed
 *                                                                    expired; or failed
 * verifying the logins    as in connectMailbox                       connected; or failed
 * connected, expired, failed: final
 */

export interface DeviceInput {
  signInId: string;
  /** seconds before the first request to the provider */
  intervalS: number;
  /** factor on every wait; small in tests */
  pace?: number;
}

/** Retried only after a failure of the worker or of our own store: a refusal ends the sign-in. */
const { pollDevice, verifyMailbox } = proxyActivities<DeviceActivities & ConnectActivities>({
  taskQueue: QUEUES.commands,
  startToCloseTimeout: '45s',
  scheduleToCloseTimeout: '5m',
  retry: {
    initialInterval: '500ms',
    maximumInterval: '5s',
    nonRetryableErrorTypes: ['provider_error', 'unexpected_error'],
  },
});
const { startAccount, endDeviceSignIn } = proxyActivities<AccountActivities & DeviceActivities>({
  taskQueue: QUEUES.commands,
  startToCloseTimeout: '10s',
  retry: { initialInterval: '200ms', maximumInterval: '30s' },
});

/** Connects a mailbox whose owner signs in on another device. @returns the account; undefined: it was not connected */
export async function connectByDevice(input: DeviceInput): Promise<{ accountId: string } | undefined> {
  const { signInId, pace = 1 } = input;
  const shown = trackState('waiting for the owner');
  try {
    let { intervalS } = input;
    for (let waitS = intervalS; ; ) {
      await sleep(waitS * 1000 * pace);
      const poll = await pollDevice({ signInId });
      if ('over' in poll) return void shown.enter('expired');
      if ('waitS' in poll) {
        // RFC 8628, 3.5: what slows it down does so for all later requests; any other wait is for once
        intervalS += poll.slowerS ?? 0;
        waitS = Math.max(intervalS, poll.waitS);
        continue;
      }
      shown.enter('verifying the logins');
      const { accountId, isStarted } = await verifyMailbox(poll);
      setSearchAttributes(accountId);
      if (!isStarted) await startAccount({ accountId });
      await endDeviceSignIn({ signInId, accountId });
      shown.enter('connected');
      return { accountId };
    }
  } catch (error) {
    const failed = readFailure(error);
    shown.enter('failed', { lastError: classOf(failed) });
    const failure = (failed.kind === 'failed' && failed.detail) || 'the sign-in was not completed';
    await CancellationScope.nonCancellable(() => endDeviceSignIn({ signInId, failure }));
    throw error;
  }
}
