import { describe, expect, it } from '@jest/globals';
import { MAX_RETRY_AFTER_MS, nextDelay, parseRetryAfter } from '../../../src/webhooks/attempt/retry-schedule.ts';

const SCHEDULE = [5_000, 30_000, 300_000];

describe('the next attempt', () => {
  it.each([
    // tries, Retry-After, random, delay
    [1, null, 0.5, 5_000],
    [1, null, 0, 4_000],
    [1, null, 0.999999, 6_000],
    [2, null, 0.5, 30_000],
    [3, null, 0.5, 300_000],
    [4, null, 0.5, undefined],
    [1, 60_000, 0.5, 60_000],
    [1, 1_000, 0.5, 5_000],
    [1, 10 * MAX_RETRY_AFTER_MS, 0.5, MAX_RETRY_AFTER_MS],
    [4, 60_000, 0.5, undefined],
  ])('after %i tries, Retry-After %s ms, chance %d: in %s ms', (tries, retryAfter, random, delay) => {
    expect(nextDelay(SCHEDULE, tries, retryAfter, random)).toBe(delay);
  });
});

describe('Retry-After', () => {
  const now = new Date('2026-03-04T05:06:07Z');

  it.each([
    ['120', 120_000],
    [' 0 ', 0],
    ['Wed, 04 Mar 2026 05:07:07 GMT', 60_000],
    ['Wednesday, 04-Mar-26 05:07:07 GMT', 60_000],
    ['Wed, 04 Mar 2026 05:00:00 GMT', 0],
    ['', null],
    [undefined, null],
    ['soon', null],
    ['-5', null],
    ['1.5', null],
    ['99999999999999999999', null],
    ['2026-03-04', null],
  ])('%s is %s ms', (value, expected) => {
    expect(parseRetryAfter(value, now)).toBe(expected);
  });
});
