import { describe, expect, it } from '@jest/globals';
import { createTurns, NotBegun } from '../../src/api/commands/turns.ts';
import { PartUnavailable } from '../../src/outage.ts';
import { waitFor } from '../helpers/assert/wait.ts';

/** Works that the test ends. */
function works(share: number, waitMs = 60_000) {
  const turns = createTurns(share);
  const underWay: string[] = [];
  const ends = new Map<string, (error?: Error) => void>();
  const call = (key: string, name: string) =>
    turns.inTurn(key, waitMs, () => {
      underWay.push(name);
      return new Promise<void>((resolve, reject) =>
        ends.set(name, (error) => {
          underWay.splice(underWay.indexOf(name), 1);
          if (error) reject(error);
          else resolve();
        }),
      );
    });
  return { call, underWay, end: (name: string, error?: Error) => ends.get(name)?.(error) };
}

describe('turns', () => {
  it('let each key have its share, and the others wait in their order', async () => {
    const { call, underWay, end } = works(2);
    const calls = ['a1', 'a2', 'a3', 'a4', 'b1'].map((name) => call(name.charAt(0), name));
    await waitFor(() => underWay.length === 3);
    expect(underWay).toEqual(['a1', 'a2', 'b1']);
    end('a2');
    await waitFor(() => underWay.includes('a3'));
    expect(underWay).toEqual(['a1', 'b1', 'a3']);
    for (const name of ['a1', 'a3', 'b1']) end(name);
    await waitFor(() => underWay.includes('a4'));
    end('a4');
    await Promise.all(calls);
    expect(underWay).toEqual([]);
  });

  it('pass to the next one when a work fails', async () => {
    const { call, underWay, end } = works(1);
    const [first, second] = [call('a', 'a1'), call('a', 'a2')];
    await waitFor(() => underWay.includes('a1'));
    end('a1', new Error('refused'));
    await expect(first).rejects.toThrow('refused');
    await waitFor(() => underWay.includes('a2'));
    end('a2');
    await second;
  });

  it('do not come when others of the key take too long; later calls are not kept from theirs', async () => {
    const { call, underWay, end } = works(1, 50);
    const first = call('a', 'a1');
    await expect(call('a', 'a2')).rejects.toMatchObject({ name: 'NotBegun', outage: undefined });
    end('a1');
    await first;
    const third = call('a', 'a3');
    await waitFor(() => underWay.includes('a3'));
    end('a3');
    await third;
  });

  it('are not waited for when a part of the installation is away', async () => {
    const { call, underWay, end } = works(1);
    const outage = new PartUnavailable('temporal');
    const calls = ['a1', 'a2', 'a3'].map((name) => call('a', name));
    await waitFor(() => underWay.includes('a1'));
    end('a1', new Error('the call failed', { cause: outage }));
    const [, second, third] = await Promise.allSettled(calls);
    expect(second).toEqual({ status: 'rejected', reason: new NotBegun(outage) });
    expect(third).toMatchObject({ status: 'rejected', reason: { outage } });
    const fourth = call('a', 'a4');
    await waitFor(() => underWay.includes('a4'));
    end('a4');
    await fourth;
  });
});
