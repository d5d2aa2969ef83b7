import { expect } from '@jest/globals';
import { leastCpu } from './least-cpu.ts';

/**
 * Fails when `work` takes more CPU than `boundMs`, milliseconds, by the best of a few attempts: the time counts what this
 * process does, with its collector, and not what else runs on the machine. `work` must not wait for anything.
 */
export function expectCpuBelow(boundMs: number, work: () => unknown): void {
  expect(leastCpu(work, boundMs)).toBeLessThan(boundMs);
}
