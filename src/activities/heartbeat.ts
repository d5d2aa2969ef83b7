import { Context } from '@temporalio/activity';

const EVERY_MS = 1_500;
const RENEW_MS = 10_000;

/**
 * Runs the work of an activity with heartbeats until it has settled: after the loss of a worker another one takes over soon,
 * by default within seconds, for an activity that a caller waits for.
 */
export async function withHeartbeat<T>(work: () => Promise<T>, everyMs = EVERY_MS): Promise<T> {
  const context = Context.current();
  if (context.info.isLocal) return work();
  // each heartbeat is a call to the server: short work sends none
  const heartbeat = setInterval(() => context.heartbeat(), everyMs);
  try {
    return await work();
  } finally {
    clearInterval(heartbeat);
  }
}

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
