import { setTimeout as sleep } from 'node:timers/promises';

/** Thrown by waitFor when the condition did not come true in time. */
export class WaitTimeout extends Error {}

export interface WaitOptions {
  /** how long to wait, ms; default 20 s */
  timeoutMs?: number;
  /** time between two attempts, ms; default 50 */
  everyMs?: number;
  /** name of the condition in the error */
  what?: string | (() => string);
}

/**
 * Calls `probe` repeatedly until it returns a truthy value, and returns that.
 * @throws WaitTimeout after `timeoutMs`
 */
export async function waitFor<T>(
  probe: () => T | Promise<T>,
  options: WaitOptions = {},
): Promise<Exclude<T, false | null | undefined | 0 | ''>> {
  const { timeoutMs = 20_000, everyMs = 50, what = 'the condition' } = options;
  const end = Date.now() + timeoutMs;
  for (;;) {
    const value = await probe();
    if (value) return value as Exclude<T, false | null | undefined | 0 | ''>;
    if (Date.now() >= end) {
      throw new WaitTimeout(`waited ${timeoutMs} ms for ${typeof what === 'string' ? what : what()}`);
    }
    await sleep(everyMs);
  }
}
