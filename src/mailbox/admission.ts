import { performance } from 'node:perf_hooks';
import { sleep, unlessAborted } from '../async.ts';

/*
 * A watch begins with a pass over its mailbox. After a start, or when another worker is lost, hundreds of them begin at once: without
 * a limit, the passes of all of them delay everything that callers wait for, workflow tasks time out, and their work is
 * thrown away and done again. So watches begin one after another, each once this process has time left, or few others are in
 * their first pass.
 */

/** Lets watches begin. */
export interface Admission {
  /** Resolves when it is the caller's turn, or the signal aborts, with what the caller calls when its first pass has ended. */
  admit(signal: AbortSignal): Promise<() => void>;
}

/** The event loop is measured for so long, ms: no more than one watch begins in it. */
const SAMPLE_MS = 20;
/** The part of its time that the event loop may be busy. */
const BUSY = 0.8;
/** First passes at a time in a process that stays busy: with more of them, each takes as much longer. */
const BUSY_PASSES = 2;
/** A watch waits no longer than this, so that passes which hang, or have much to read, hold up no others for good, ms. */
const LONGEST_MS = 3_000;
/** After a pause of this length the first watch begins at once, ms. */
const PAUSE_MS = 1_000;

const NOTHING = () => {};

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
  let last: Promise<unknown> = Promise.resolve();
  let admittedAt = -Infinity;
  let passes = 0;

  async function untilCalm(signal: AbortSignal): Promise<void> {
    const began = performance.now();
    // the first one in a while is measured by the time since the one before
    if (began - admittedAt > PAUSE_MS && utilization() < BUSY) return;
    while (!signal.aborted && performance.now() - began < longestMs) {
      utilization();
      await sleep(SAMPLE_MS, signal);
      if (utilization() < BUSY || passes < BUSY_PASSES) return;
    }
  }

  return {
    async admit(signal) {
      const turn = last.then(async () => {
        if (!signal.aborted) await untilCalm(signal);
        if (signal.aborted) return NOTHING;
        admittedAt = performance.now();
        passes += 1;
        let isOver = false;
        return () => {
          if (!isOver) passes -= 1;
          isOver = true;
        };
      });
      last = turn;
      return (await unlessAborted(turn, signal)) ?? NOTHING;
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
