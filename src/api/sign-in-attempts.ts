import { normalizeIP } from '@fastify/rate-limit';
import { TooManyRequests } from './http/request-limits.ts';

/*
 * Limits of wrong passwords, in the memory of this process: by email address from one network, by network, and by email address
 * from all networks together. Browsers in which the person has signed in before (known-browser.ts) count on their own: others
 * cannot use that up.
 */

const WINDOW_MS = 15 * 60_000;
/** Wrong passwords in a window. */
const WRONG = { login: 100, network: 50, both: 10 };
/** Entries of each map; the oldest are evicted first. */
const REMEMBERED = 20_000;

export interface Attempts {
  /**
   * Begins an attempt, which counts as wrong until `succeed`: attempts at the same moment do not all pass.
   * `isKnown`: the person has signed in in this browser.
   * @throws TooManyRequests
   */
  begin(attempt: { ip: string; login: string; isKnown: boolean }): { succeed(): void };
}

/** Creates the limits. `reached`: an attempt was refused. */
export function limitAttempts(reached: () => void): Attempts {
  const [ofLogin, ofNetwork, ofBoth] = [WRONG.login, WRONG.network, WRONG.both].map(createCounter) as Counters;
  return {
    begin({ ip, login, isKnown }) {
      const network = normalizeIP(ip);
      const counted: [Counter, string][] = isKnown
        ? [[ofBoth, `known ${login}`]]
        : [
            [ofBoth, `${network} ${login}`],
            [ofNetwork, network],
            [ofLogin, login],
          ];
      for (const [counter, source] of counted) {
        const resetS = counter.fullForS(source);
        if (resetS === 0) continue;
        reached();
        throw new TooManyRequests('too many wrong passwords; try again later', { limit: counter.limit, resetS });
      }
      for (const [counter, source] of counted) counter.add(source, 1);
      return {
        succeed() {
          for (const [counter, source] of counted) counter.add(source, -1);
        },
      };
    },
  };
}

type Counters = [Counter, Counter, Counter];
interface Counter {
  limit: number;
  /** seconds until the source may attempt again; 0: it may now */
  fullForS(source: string): number;
  add(source: string, count: 1 | -1): void;
}

function createCounter(limit: number): Counter {
  const windows = new Map<string, { endsAt: number; count: number }>();
  const windowOf = (source: string) => {
    const window = windows.get(source);
    return window && window.endsAt > Date.now() ? window : undefined;
  };
  return {
    limit,
    fullForS(source) {
      const window = windowOf(source);
      return window && window.count >= limit ? Math.ceil((window.endsAt - Date.now()) / 1000) : 0;
    },
    add(source, count) {
      const window = windowOf(source);
      if (window) window.count = Math.max(0, window.count + count);
      else if (count > 0) {
        windows.delete(source);
        const [oldest] = windows.keys();
        if (windows.size >= REMEMBERED && oldest !== undefined) windows.delete(oldest);
        windows.set(source, { endsAt: Date.now() + WINDOW_MS, count });
      }
    },
  };
}
