import { describe, expect, it } from '@jest/globals';
import { createRecordQueue } from '../../../src/webhooks/attempt/record-queue.ts';

const noErrors = (error: unknown) => {
  throw error;
};

describe('the queue of results', () => {
  it('writes results of the same tick together, and those that come during a write in the next one', async () => {
    const writes: number[][] = [];
    let finish = () => {};
    const queue = createRecordQueue<number>({
      isTemporary: () => true,
      onError: noErrors,
      onGivenUp: noErrors,
      write: (results) => {
        writes.push([...results]);
        return new Promise((resolve) => {
          finish = resolve;
        });
      },
    });
    const first = [queue.add('a', 1), queue.add('b', 2)];
    await Promise.resolve();
    const second = [queue.add('c', 3), queue.add('d', 4)];
    expect(queue.pending('c')).toBe(second[0]);
    finish();
    await Promise.all(first);
    expect(queue.pending('a')).toBeUndefined();
    await new Promise(setImmediate);
    finish();
    await Promise.all(second);
    expect(writes).toEqual([
      [1, 2],
      [3, 4],
    ]);
  });

  it('repeats a failed write until it succeeds, with the results that came in the meantime', async () => {
    const written: number[] = [];
    const errors: string[] = [];
    let failures = 2;
    const queue = createRecordQueue<number>({
      retryMs: 1,
      isTemporary: () => true,
      onGivenUp: noErrors,
      onError: (error) => errors.push(String(error)),
      write: async (results) => {
        if (failures-- > 0) throw new Error('away');
        written.push(...results);
      },
    });
    await Promise.all([queue.add('a', 1), queue.add('b', 2), queue.add('c', 3)]);
    expect(written).toEqual([1, 2, 3]);
    expect(errors).toEqual(['Error: away', 'Error: away']);
  });

  it('gives up a result that the store refuses each time, and stores all others', async () => {
    const written: number[] = [];
    const givenUp: number[] = [];
    const queue = createRecordQueue<number>({
      retryMs: 1,
      isTemporary: () => false,
      onError: () => {},
      onGivenUp: (_error, result) => givenUp.push(result),
      write: async (results) => {
        if (results.includes(2)) throw new Error('a value that the store refuses');
        written.push(...results);
      },
    });
    await Promise.all([queue.add('a', 1), queue.add('b', 2), queue.add('c', 3)]);
    await queue.add('d', 4);
    expect(written.sort()).toEqual([1, 3, 4]);
    expect(givenUp).toEqual([2]);
    expect(queue.pending('b')).toBeUndefined();
  });

  it('keeps every result while the store is unavailable', async () => {
    const written: number[] = [];
    let failures = 30;
    const queue = createRecordQueue<number>({
      retryMs: 1,
      isTemporary: () => true,
      onError: () => {},
      onGivenUp: noErrors,
      write: async (results) => {
        if (failures-- > 0) throw new Error('away');
        written.push(...results);
      },
    });
    await Promise.all([queue.add('a', 1), queue.add('b', 2)]);
    expect(written).toEqual([1, 2]);
  });
});
