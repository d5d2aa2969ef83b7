import { readFileSync, readlinkSync } from 'node:fs';

/*
 * The CPU that one thread uses: Node counts that of the whole process only, in which others parse and collect garbage at
 * the same time. Linux tells; elsewhere the clock has to do.
 */

/** The system's id of the thread that calls; null where the system does not tell. */
export function ownThread(): number | null {
  try {
    return Number(readlinkSync('/proc/thread-self').split('/').at(-1)) || null;
  } catch {
    return null;
  }
}

/** Milliseconds of CPU that a thread of this process has used; null where the system does not tell. */
export function threadCpuMs(thread: number | null): number | null {
  if (thread === null) return null;
  try {
    return Number(readFileSync(`/proc/self/task/${thread}/schedstat`, 'latin1').split(' ')[0]) / 1e6;
  } catch {
    return null;
  }
}

/** How much longer than its budget work may take where the machine is too busy to give it the CPU. */
const PATIENCE = 3;

/**
 * A budget of time, in ms, for work of a thread that begins now. Returns a function that says whether it is used up. Only
 * the CPU of that thread counts: an overloaded machine must not cut mail short. After three times the budget on the clock
 * it is used up in any case; and after the budget itself where the CPU of a thread is not known.
 */
export function createBudget(ms: number, thread: number | null): () => boolean {
  const startedAt = performance.now();
  const startedWith = threadCpuMs(thread);
  return () => {
    const elapsed = performance.now() - startedAt;
    if (elapsed <= ms) return false;
    const used = startedWith === null ? null : threadCpuMs(thread);
    return used === null || startedWith === null || elapsed > ms * PATIENCE || used - startedWith > ms;
  };
}
