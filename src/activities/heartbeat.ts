import { Context } from '@temporalio/activity';

const EVERY_MS = 1_500;

/**
 * Runs an activity that a caller waits for: it says often that it is alive, so that one whose worker was killed is
 * taken over by another within seconds.
 */
export async function withHeartbeat<T>(work: () => Promise<T>): Promise<T> {
  const context = Context.current();
  if (context.info.isLocal) return work();
  // each beat is a call to the server: what ends soon makes none
  const beat = setInterval(() => context.heartbeat(), EVERY_MS);
  try {
    return await work();
  } finally {
    clearInterval(beat);
  }
}
