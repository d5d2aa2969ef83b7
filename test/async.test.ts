import { describe, expect, test } from '@jest/globals';
import { sleep, withDeadline } from '../src/async.ts';

describe('withDeadline', () => {
  const never = new Promise<never>(() => {});

  test('settles like work that is in time', async () => {
    const late = () => new Error('late');
    expect(await withDeadline(10_000, Promise.resolve('done'), late)).toBe('done');
    await expect(withDeadline(10_000, Promise.reject(new Error('failed')), late)).rejects.toThrow('failed');
  });

  test('rejects when the work is late, and ignores its result', async () => {
    let fail: (error: Error) => void = () => {};
    const work = new Promise<void>((_, reject) => (fail = reject));
    await expect(withDeadline(1, work, () => new Error('late'))).rejects.toThrow('late');
    fail(new Error('the result is ignored'));
    await sleep(0);
  });

  test.each([0, -5])('with no time left rejects soon (%d ms)', async (ms) => {
    await expect(withDeadline(ms, never, () => new Error('late'))).rejects.toThrow('late');
  });
});

describe('sleep', () => {
  test('resolves when the signal aborts, or had aborted before', async () => {
    const controller = new AbortController();
    const slept = sleep(3_600_000, controller.signal);
    controller.abort();
    await slept;
    await sleep(3_600_000, controller.signal);
  });
});
