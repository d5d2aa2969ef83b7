import { Context } from '@temporalio/activity';

const EVERY_MS = 1_500;

/**
 * Runs the work of an activity with heartbeats until it has settled, so one whose worker was killed is taken over by
 * another soon: within seconds by default, for an activity that a caller waits for.
 */
export async function withHeartbeat<T>(work: () => Promise<T>, everyMs = EVERY_MS): Promise<T> {
  const context = Context.current();
  if (context.info.isLocal) return work();
  // each heartbeat is a call to the server: what ends soon makes none
  const heartbeat = setInterval(() => context.heartbeat(), everyMs);
  try {
    return await work();
  } finally {
    clearInterval(heartbeat);
  }
}
