import { expect } from '@jest/globals';

const ATTEMPTS = 8;

/**
 * Fails when `work` takes more CPU than `boundMs`, milliseconds, by the best of a few attempts: the time counts what this
 * process does, with its collector, and not what else runs on the machine. `work` must not wait for anything.
 */
export function expectCpuBelow(boundMs: number, work: () => unknown): void {
  expect(leastCpu(work, boundMs)).toBeLessThan(boundMs);
}

/** The CPU that `work` takes, ms, by the best of a few attempts; not tried again once it is below `enoughMs`. */
export function leastCpu(work: () => unknown, enoughMs = 0): number {
  let least = Infinity;
  for (let attempt = 0; attempt < ATTEMPTS && least >= enoughMs; attempt++) {
    const before = process.cpuUsage();
    work();
    const { user, system } = process.cpuUsage(before);
    least = Math.min(least, (user + system) / 1000);
  }
  return least;
}
