import { expect, test } from '@jest/globals';
import { createBudget, ownThread, threadCpuMs } from '../../src/mime/thread-cpu.ts';
import { waitFor } from '../helpers/assert/wait.ts';

const now = () => performance.now();
const cpu = () => threadCpuMs(ownThread()) ?? Number.NaN;

test('a budget counts the CPU time of the thread, however long a busy machine takes to give it', async () => {
  const isUp = createBudget(200, ownThread());
  const begun = { clock: now(), cpu: cpu() };
  // a machine that is so busy that this thread gets nothing
  await waitFor(() => now() - begun.clock > 1_000);
  expect(cpu() - begun.cpu).toBeLessThan(200);
  expect(isUp()).toBe(false);
  while (cpu() - begun.cpu < 210);
  expect(isUp()).toBe(true);
});

test('a budget of an unknown thread counts the clock', async () => {
  const isUp = createBudget(50, null);
  expect(isUp()).toBe(false);
  await waitFor(isUp);
});
