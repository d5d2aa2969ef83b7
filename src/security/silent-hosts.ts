import type { OutboundFetch } from './outbound-fetch.ts';

/** How long a server that did not respond is left alone, ms. */
const PAUSE_MS = 15_000;
const MOST_SERVERS = 1_000;

/**
 * A `fetch` that does not let a server that never responds hold up the requests to others: after a timeout, requests to its origin
 * reject at once, with the same error, until the pause has passed; then one at a time tries again. Rejects as `fetch` does.
 */
export function sparingSilentHosts(fetch: OutboundFetch, now: () => number = Date.now): OutboundFetch {
  const silent = new Map<string, { until: number; error: unknown }>();
  return async (target, init) => {
    const { origin } = new URL(target);
    const known = silent.get(origin);
    if (known) {
      if (now() < known.until) throw known.error;
      known.until = Infinity;
    }
    try {
      const response = await fetch(target, init);
      silent.delete(origin);
      return response;
    } catch (error) {
      silent.delete(origin);
      if (isTimeout(error) && silent.size < MOST_SERVERS) silent.set(origin, { until: now() + PAUSE_MS, error });
      throw error;
    }
  };
}

const isTimeout = (error: unknown) => (error as { code?: unknown } | null)?.code === 'ETIMEDOUT';
