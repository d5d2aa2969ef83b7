import type { Logger } from './logger.ts';

/** Runs a piece of upkeep every `ms`, one at a time; a failure is told and left to the next time. */
export function repeat(ms: number, work: () => Promise<void>, logger: Logger): { stop(): void } {
  let busy = false;
  const timer = setInterval(() => {
    if (busy) return;
    busy = true;
    work()
      .catch((err: unknown) => logger.warn({ err }, 'a piece of upkeep failed'))
      .finally(() => {
        busy = false;
      });
  }, ms);
  return { stop: () => clearInterval(timer) };
}
