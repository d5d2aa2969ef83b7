import { setTimeout as timer } from 'node:timers/promises';
import type { Logger } from './runtime/logger.ts';

/** Resolves after `ms` milliseconds, or as soon as the signal aborts; never rejects. */
export async function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  await timer(ms, undefined, signal && { signal }).catch(() => {});
}

/** Resolves when the signal aborts. */
export function untilAborted(signal: AbortSignal): Promise<void> {
  return sleep(2 ** 31 - 1, signal);
}

/** The result of `work`, or undefined as soon as the signal aborts; the work then continues, and its end is ignored. */
export async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T | undefined> {
  const settled = new AbortController();
  const aborted = untilAborted(AbortSignal.any([signal, settled.signal])).then(() => undefined);
  try {
    return await Promise.race([work, aborted]);
  } finally {
    settled.abort();
  }
}

/**
 * The result of `work` if it comes within `ms` milliseconds; else rejects with the error of `onLate`. The work then
 * continues, and its result or failure is ignored.
 */
export async function withDeadline<T>(ms: number, work: Promise<T>, onLate: () => Error): Promise<T> {
  let timeout: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timeout = setTimeout(() => reject(onLate()), Math.max(1, ms));
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timeout);
    work.catch(() => {});
  }
}

/** Returns a function that runs at most `count` tasks at a time; the others wait in the order of their calls. */
export function createLimiter(count: number): <T>(work: () => Promise<T>) => Promise<T> {
  let free = count;
  const waiting: (() => void)[] = [];
  return async (work) => {
    if (free > 0) free -= 1;
    else await new Promise<void>((resolve) => waiting.push(resolve));
    try {
      return await work();
    } finally {
      const next = waiting.shift();
      if (next) next();
      else free += 1;
    }
  };
}

/**
 * Returns a function that runs at most `total` tasks at a time, and at most `each` of one key. The tasks of a key that wait for
 * another of it take no place of the total: slow ones delay no other key.
 */
export function createSharedLimiter({ total, each }: { total: number; each: number }) {
  const limit = createLimiter(total);
  const keys = new Map<string, { limit: ReturnType<typeof createLimiter>; users: number }>();
  return async <T>(key: string, work: () => Promise<T>): Promise<T> => {
    const own = keys.get(key) ?? { limit: createLimiter(each), users: 0 };
    keys.set(key, own);
    own.users += 1;
    try {
      return await own.limit(() => limit(work));
    } finally {
      own.users -= 1;
      if (own.users === 0) keys.delete(key);
    }
  };
}

const RENEW_MS = 10_000;

/**
 * Runs work that a row stands for, and renews the row until the work has settled: others know by that how long ago an attempt
 * was under way. A renewal that fails is left to the next one.
 */
export async function withRenewal<T>(
  renew: () => Promise<void>,
  work: () => Promise<T>,
  everyMs = RENEW_MS,
): Promise<T> {
  const renewal = setInterval(() => void renew().catch(() => {}), everyMs);
  try {
    return await work();
  } finally {
    clearInterval(renewal);
  }
}

/**
 * Runs work again every `everyMs` until it succeeds, or has failed for `forMs`: then rejects with its last failure. `onFailure`
 * sees each failure before that, and ends it too by throwing.
 */
export async function repeatFor<T>(
  { forMs, everyMs }: { forMs: number; everyMs: number },
  work: () => Promise<T>,
  onFailure: (error: unknown) => void,
): Promise<T> {
  for (const until = performance.now() + forMs; ; await sleep(everyMs)) {
    try {
      return await work();
    } catch (error) {
      if (performance.now() >= until) throw error;
      onFailure(error);
    }
  }
}

/**
 * Runs a maintenance task every `ms`, one at a time; a failure is logged. `stop` resolves when a current run has ended.
 */
export function every(ms: number, work: () => Promise<void>, logger: Logger): { stop(): Promise<void> } {
  let current: Promise<void> | undefined;
  const interval = setInterval(() => {
    current ??= work()
      .catch((err: unknown) => logger.warn({ err }, 'maintenance task failed'))
      .finally(() => {
        current = undefined;
      });
  }, ms);
  return {
    async stop() {
      clearInterval(interval);
      await current;
    },
  };
}

/** Postgres and Temporal may start after this process; until then the log shows why they cannot be reached. */
const RETRY_MS = 60_000;

/** Runs `work` until it succeeds, for a minute or until it is `over`, which gets each error; rejects then with the last one. */
export async function retryUntilAvailable<T>(
  dependency: string,
  logger: Logger,
  work: () => Promise<T>,
  { over }: { over(error: unknown): boolean } = { over: () => false },
): Promise<T> {
  const until = performance.now() + RETRY_MS;
  for (let waitMs = 250; ; waitMs = Math.min(2 * waitMs, 5_000)) {
    try {
      return await work();
    } catch (err) {
      if (performance.now() >= until || over(err)) throw err;
      logger.warn({ err, dependency }, 'dependency not available; retrying');
      await sleep(waitMs);
    }
  }
}
