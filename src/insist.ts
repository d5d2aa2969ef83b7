import type { Logger } from './logger.ts';

/** Postgres and Temporal may come up after us; a wrong address is told in the log meanwhile. */
const PATIENCE_MS = 60_000;

/** Tries until it works, for a minute at most or until it is `over`; rejects with the error of the last try. */
export async function insist<T>(
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
