import { describe, expect, test } from '@jest/globals';
import { createSharedLimiter, sleep, withDeadline } from '../src/async.ts';

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

describe('createSharedLimiter', () => {
  test('runs a few tasks of each key, in their order, and no more than the total', async () => {
    const limit = createSharedLimiter({ total: 3, each: 2 });
    const begun: string[] = [];
    const ends = new Map<string, () => void>();
    const run = (name: string) =>
      limit(name.slice(0, 1), () => {
        begun.push(name);
        return new Promise<void>((resolve) => ends.set(name, resolve));
      });
    const all = ['a1', 'a2', 'a3', 'b1', 'b2', 'c1'].map(run);
    await sleep(0);
    expect(begun).toEqual(['a1', 'a2', 'b1']);
    for (const name of ['a1', 'b1', 'a2', 'b2', 'c1', 'a3']) {
      ends.get(name)?.();
      await sleep(0);
    }
    expect(begun).toEqual(['a1', 'a2', 'b1', 'b2', 'c1', 'a3']);
    await Promise.all(all);
    await expect(limit('a', () => Promise.reject(new Error('failed')))).rejects.toThrow('failed');
    expect(await limit('a', async () => 'done')).toBe('done');
  });
});
