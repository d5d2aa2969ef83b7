import { readFileSync, readlinkSync } from 'node:fs';

/*
 * The CPU time of one thread: Node counts only that of the whole process, in which other threads parse and collect garbage.
 * Linux reports it; on other systems the clock replaces it.
 */

/** The system's id of the calling thread; null on systems other than Linux. */
export function ownThread(): number | null {
  try {
    return Number(readlinkSync('/proc/thread-self').split('/').at(-1)) || null;
  } catch {
    return null;
  }
}

/** Milliseconds of CPU that a thread of this process has used; null where the system does not report it. */
export function threadCpuMs(thread: number | null): number | null {
  if (thread === null) return null;
  try {
    return Number(readFileSync(`/proc/self/task/${thread}/schedstat`, 'latin1').split(' ')[0]) / 1e6;
  } catch {
    return null;
  }
}

/**
 * The milliseconds that work may take on the clock whatever its budget: a busy machine gives a thread a small part of its
 * time. They end work that waits, for a file for example, and uses no CPU.
 */
const MAX_CLOCK_MS = 60_000;

/**
 * Starts a time budget, in ms, for the work of a thread. Returns a function that tests whether it is used up. Only the CPU
 * time of the thread counts: an overloaded machine must not cut mail short. On the clock the budget ends after a minute (for
 * a larger budget, after three times `ms`), or after `ms` when the CPU time of the thread is unknown.
 */
export function createBudget(ms: number, thread: number | null): () => boolean {
  const startedAt = performance.now();
  const startedWith = threadCpuMs(thread);
  return () => {
    const elapsed = performance.now() - startedAt;
    if (elapsed <= ms) return false;
    const used = startedWith === null ? null : threadCpuMs(thread);
    return used === null || startedWith === null || elapsed > Math.max(MAX_CLOCK_MS, 3 * ms) || used - startedWith > ms;
  };
}
