import type { Logger } from './logger.ts';

/** Lets so many run at a time: a task that waited in the pool's own queue would use up its time there. */
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
 * Runs a maintenance task every `ms`, one at a time; a failure is logged and left to the next time. `stop` resolves when
 * a task under way has ended.
 */
export function every(ms: number, work: () => Promise<void>, logger: Logger): { stop(): Promise<void> } {
  let current: Promise<void> | undefined;
  const timer = setInterval(() => {
    current ??= work()
      .catch((err: unknown) => logger.warn({ err }, 'a maintenance task failed'))
      .finally(() => {
        current = undefined;
      });
  }, ms);
  return {
    async stop() {
      clearInterval(timer);
      await current;
    },
  };
}

/** Postgres and Temporal may come up after us; a wrong address is told in the log meanwhile. */
const PATIENCE_MS = 60_000;

/** Tries until it works, for a minute at most or until it is `over`; rejects with the error of the last try. */
export async function retryUntilAvailable<T>(
  what: string,
  logger: Logger,
  work: () => Promise<T>,
  { over }: { over(): boolean } = { over: () => false },
): Promise<T> {
  const until = Date.now() + PATIENCE_MS;
  for (let waitMs = 250; ; waitMs = Math.min(2 * waitMs, 5_000)) {
    try {
      return await work();
    } catch (err) {
      if (Date.now() >= until || over()) throw err;
      logger.warn({ err }, `waiting for ${what}`);
      await new Promise((resolve) => setTimeout(resolve, waitMs));
    }
  }
}
