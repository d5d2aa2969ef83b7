import { normalizeIP } from '@fastify/rate-limit';
import { TooManyRequests } from './http/request-limits.ts';
import { createWindows, type Windows } from './windows.ts';

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
  const [ofLogin, ofNetwork, ofBoth] = [counterOf(WRONG.login), counterOf(WRONG.network), counterOf(WRONG.both)];
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
      for (const [{ limit, windows }, source] of counted) {
        if (windows.countOf(source) < limit) continue;
        reached();
        const resetS = windows.resetS(source);
        throw new TooManyRequests('too many wrong passwords; try again later', { limit, resetS });
      }
      for (const [{ windows }, source] of counted) windows.add(source, 1);
      return {
        succeed() {
          for (const [{ windows }, source] of counted) windows.add(source, -1);
        },
      };
    },
  };
}

interface Counter {
  limit: number;
  windows: Windows;
}

const counterOf = (limit: number): Counter => ({ limit, windows: createWindows(WINDOW_MS, REMEMBERED) });
