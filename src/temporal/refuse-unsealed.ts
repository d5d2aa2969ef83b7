import type { ActivityInterceptorsFactory } from '@temporalio/worker';
import { ApplicationFailure } from '@temporalio/common';
import { isUnsealed, UNSEALED_TYPE } from '../workflows/names.ts';

/** Refuses activities whose input, or whose progress before a retry, was written by a program without our key. */
export const refuseUnsealed: ActivityInterceptorsFactory = ({ info }) => ({
  inbound: {
    async execute(input, next) {
      if (!input.args.some(isUnsealed) && !isUnsealed(info.heartbeatDetails)) return next(input);
      throw ApplicationFailure.nonRetryable('the input of this activity was not sealed for this run', UNSEALED_TYPE);
    },
  },
});
