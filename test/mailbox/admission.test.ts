import { expect, it } from '@jest/globals';
import { setTimeout as sleep } from 'node:timers/promises';
import { createAdmission } from '../../src/mailbox/admission.ts';

const never = new AbortController().signal;

it('watches begin in the order of their calls, and not faster than a busy process bears', async () => {
  let busy = 1;
  const admission = createAdmission({ utilization: () => busy, longestMs: 60_000 });
  const begun: number[] = [];
  const all = [1, 2, 3, 4, 5].map((n) => admission.admit(never).then(() => begun.push(n)));
  await sleep(150);
  expect(begun).toEqual([1, 2]);
  busy = 0.2;
  await Promise.all(all);
  expect(begun).toEqual([1, 2, 3, 4, 5]);
});

it('a process that stays busy has two first passes at a time', async () => {
  const admission = createAdmission({ utilization: () => 1, longestMs: 60_000 });
  const begun: (() => void)[] = [];
  const all = [1, 2, 3, 4].map(() => admission.admit(never).then((end) => begun.push(end)));
  await sleep(150);
  expect(begun).toHaveLength(2);
  // one that ends twice counts once
  begun[0]?.();
  begun[0]?.();
  await sleep(150);
  expect(begun).toHaveLength(3);
  begun[1]?.();
  await Promise.all(all);
});

it('passes that hang hold up no others for good', async () => {
  const admission = createAdmission({ utilization: () => 1, longestMs: 40 });
  const began = performance.now();
  await Promise.all([1, 2, 3, 4].map(() => admission.admit(never)));
  expect(performance.now() - began).toBeGreaterThanOrEqual(110);
});

it('the first watch in a while begins at once, and an aborted one holds up no other', async () => {
  let busy = 0;
  const admission = createAdmission({ utilization: () => busy, longestMs: 60_000 });
  await admission.admit(never);
  busy = 1;
  const ended = new AbortController();
  const first = admission.admit(ended.signal);
  const second = admission.admit(never);
  ended.abort();
  await first;
  busy = 0;
  await second;
});

it('an aborted watch does not wait for its turn, and counts as no pass', async () => {
  const admission = createAdmission({ utilization: () => 1, longestMs: 60_000 });
  const [endFirst] = await Promise.all([1, 2].map(() => admission.admit(never)));
  const third = admission.admit(never);
  const aborted = new AbortController();
  const fourth = admission.admit(aborted.signal);
  const fifth = admission.admit(never);
  aborted.abort();
  await fourth;
  let begun = 0;
  for (const watch of [third, fifth]) void watch.then(() => (begun += 1));
  await sleep(100);
  expect(begun).toBe(0);
  endFirst?.();
  const endThird = await third;
  endThird();
  await fifth;
});
