import { performance } from 'node:perf_hooks';
import { sleep } from '../async.ts';

/*
 * A watch begins with a pass over its mailbox. After a start, or when another worker is lost, hundreds of them begin at once: without
 * a limit, the passes of all of them delay everything that callers wait for, workflow tasks time out, and their work is
 * thrown away and done again. So watches begin one after another, each once this process has time left.
 */

/** Lets watches begin. */
export interface Admission {
  /** Resolves when it is the caller's turn, or the signal aborts. */
  admit(signal: AbortSignal): Promise<void>;
}

/** The event loop is measured for so long, ms: no more than one watch begins in it. */
const SAMPLE_MS = 20;
/** The part of its time that the event loop may be busy. */
const BUSY = 0.8;
/** A watch waits for a calm moment no longer than this, so that a process that stays busy takes up all of them in the end, ms. */
const LONGEST_MS = 1_000;

export interface AdmissionOptions {
  /** the part of the time since the call before in which the event loop was busy, 0 to 1 */
  utilization?: () => number;
  longestMs?: number;
}

/** Watches that begin wait in the order of their calls. */
export function createAdmission({
  utilization = sinceLastCall(),
  longestMs = LONGEST_MS,
}: AdmissionOptions = {}): Admission {
  let last = Promise.resolve();
  let admittedAt = -Infinity;

  async function untilCalm(signal: AbortSignal): Promise<void> {
    const began = performance.now();
    // the first one in a while is measured by the time since the one before
    if (began - admittedAt > longestMs && utilization() < BUSY) return;
    while (!signal.aborted && performance.now() - began < longestMs) {
      utilization();
      await sleep(SAMPLE_MS, signal);
      if (utilization() < BUSY) return;
    }
  }

  return {
    admit(signal) {
      const turn = last.then(async () => {
        if (signal.aborted) return;
        await untilCalm(signal);
        admittedAt = performance.now();
      });
      last = turn;
      return turn;
    },
  };
}

function sinceLastCall(): () => number {
  let before = performance.eventLoopUtilization();
  return () => {
    const now = performance.eventLoopUtilization();
    const { utilization } = performance.eventLoopUtilization(now, before);
    before = now;
    return utilization;
  };
}
