import { Context } from '@temporalio/activity';

const EVERY_MS = 1_500;

/**
 * Runs the work of an activity with heartbeats until it has settled: after the loss of a worker another one takes over soon,
 * by default within seconds, for an activity that a caller waits for. `details`: what a later attempt gets, as it is at each heartbeat.
 */
export async function withHeartbeat<T>(work: () => Promise<T>, everyMs = EVERY_MS, details?: object): Promise<T> {
  const context = Context.current();
  if (context.info.isLocal) return work();
  // each heartbeat is a call to the server: short work sends none
  const heartbeat = setInterval(() => context.heartbeat(details), everyMs);
  try {
    return await work();
  } finally {
    clearInterval(heartbeat);
  }
}
