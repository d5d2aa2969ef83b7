import { describe, expect, it } from '@jest/globals';
import { createRecordQueue } from '../../src/webhooks/record-queue.ts';

const noErrors = (error: unknown) => {
  throw error;
};

describe('the queue of results', () => {
  it('writes results of the same moment together, and those that come during a write in the next one', async () => {
    const writes: number[][] = [];
    let finish = () => {};
    const queue = createRecordQueue<number>({
      onError: noErrors,
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

  it('tries a failed write until it works, with what has come meanwhile', async () => {
    const written: number[] = [];
    const errors: string[] = [];
    let failures = 2;
    const queue = createRecordQueue<number>({
      retryMs: 1,
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
});
