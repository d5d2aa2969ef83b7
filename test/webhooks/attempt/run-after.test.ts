import { describe, expect, it } from '@jest/globals';
import { type FailedAttempt, runAfter } from '../../../src/webhooks/attempt/run-after.ts';

const FIRST: FailedAttempt = {
  isAway: false,
  isReplay: false,
  isOneOfMany: false,
  isFirstRetry: true,
  isPoor: false,
  retryingRuns: 0,
};

describe('the run that makes the next attempt', () => {
  it.each<[string, Partial<FailedAttempt>, ReturnType<typeof runAfter>]>([
    ['of a run of one is that run', {}, 'same'],
    ['of one of many is its own run', { isOneOfMany: true }, 'own'],
    ['of an endpoint that is away is a later one', { isAway: true }, 'queue'],
    ['of an endpoint that is away is a later one, in whatever run', { isAway: true, isOneOfMany: true }, 'queue'],
    ['of a replay is a later one', { isReplay: true }, 'queue'],
    ['of a replay is a later one, though it has waited here', { isReplay: true, isFirstRetry: false }, 'queue'],
    ['is one of five that wait', { retryingRuns: 4 }, 'same'],
    ['is a later one where five wait', { retryingRuns: 5 }, 'queue'],
    ['is a later one where five wait, of one of many', { retryingRuns: 5, isOneOfMany: true }, 'queue'],
    ['of a poor endpoint is the only one that waits', { isPoor: true }, 'same'],
    ['of a poor endpoint is a later one where one waits', { isPoor: true, retryingRuns: 1 }, 'queue'],
    ['is the run that it has waited in', { isFirstRetry: false, retryingRuns: 9 }, 'same'],
    [
      'of a poor endpoint is the run that it has waited in',
      { isFirstRetry: false, isPoor: true, retryingRuns: 1 },
      'same',
    ],
  ])('%s', (_, failed, expected) => {
    expect(runAfter({ ...FIRST, ...failed })).toBe(expected);
  });
});
