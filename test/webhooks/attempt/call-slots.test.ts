import { expect, it } from '@jest/globals';
import { setImmediate } from 'node:timers/promises';
import { type CallSlots, createCallSlots } from '../../../src/webhooks/attempt/call-slots.ts';

/** Calls to one endpoint in the order in which they were asked for, and what ends each that has begun. */
function callsOf(slots: CallSlots) {
  const begun: string[] = [];
  const ends = new Map<string, () => void>();
  return {
    begun,
    async ask(...names: string[]) {
      for (const name of names) {
        void slots.acquire('whe_1').then((end) => {
          begun.push(name);
          ends.set(name, end);
        });
      }
      await setImmediate();
    },
    async end(...names: string[]) {
      for (const name of names) ends.get(name)?.();
      await setImmediate();
    },
  };
}

it('calls begin in the order in which they were asked for', async () => {
  const calls = callsOf(createCallSlots(() => 2));
  await calls.ask('a', 'b', 'c', 'd');
  expect(calls.begun).toEqual(['a', 'b']);
  await calls.end('b');
  await calls.ask('e');
  await calls.end('a', 'c');
  expect(calls.begun).toEqual(['a', 'b', 'c', 'd', 'e']);
});

it('no new call overtakes waiting ones when the limit has risen', async () => {
  let limit = 1;
  const calls = callsOf(createCallSlots(() => limit));
  await calls.ask('a', 'b', 'c', 'd');
  limit = 3;
  await calls.ask('e');
  expect(calls.begun).toEqual(['a', 'b', 'c']);
  await calls.end('a', 'b', 'c');
  expect(calls.begun).toEqual(['a', 'b', 'c', 'd', 'e']);
});

it('the end of one call lets as many waiting calls begin as the limit allows', async () => {
  let limit = 1;
  const calls = callsOf(createCallSlots(() => limit));
  await calls.ask('a', 'b', 'c', 'd', 'e');
  limit = 3;
  await calls.end('a');
  expect(calls.begun).toEqual(['a', 'b', 'c', 'd']);
});

it('a lower limit lets no call begin until enough have ended', async () => {
  let limit = 3;
  const calls = callsOf(createCallSlots(() => limit));
  await calls.ask('a', 'b', 'c', 'd', 'e');
  limit = 1;
  await calls.end('a', 'b');
  expect(calls.begun).toEqual(['a', 'b', 'c']);
  await calls.end('c');
  expect(calls.begun).toEqual(['a', 'b', 'c', 'd']);
});
