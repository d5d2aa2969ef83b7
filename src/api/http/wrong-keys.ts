import { normalizeIP } from '@fastify/rate-limit';
import type pg from 'pg';
import { digestOf, existingDigests } from '../../db/access/api-keys.ts';
import { TooManyRequests } from './request-limits.ts';
import { createWindows, remember } from '../windows.ts';

const WINDOW_MS = 60_000;
/** Number of addresses and keys to track; the oldest are evicted first. */
const REMEMBERED = 20_000;
/** Keys per look-up, and the time between look-ups, ms. */
const BATCH = 1_000;
const PAUSE_MS = 50;

/** Limits calls with wrong keys by IP address; IPv6 by /64 network, since one customer has a whole /64. */
export interface WrongKeys {
  /**
   * Looks a key up with `find`, and counts a wrong one. An address that used too many wrong keys may only continue with
   * existing keys: recently valid ones pass immediately, others after a batched look-up. A key counts as wrong while it is
   * looked up, so that calls at the same moment do not all pass.
   * @throws TooManyRequests
   */
  lookUp<T>(address: string, key: string, find: () => Promise<T | undefined>): Promise<T | undefined>;
}

/**
 * Creates a limiter in the memory of this process. `perMinute` 0: no limit. `reached` is called when an address reaches the
 * limit.
 */
export function limitWrongKeys(pool: pg.Pool, perMinute: number, reached: () => void): WrongKeys {
  /** look-ups under way by network */
  const pending = new Map<string, number>();
  const windows = createWindows(WINDOW_MS, REMEMBERED);
  const rightKeys = new Map<string, true>();
  const exists = lookUpTogether(pool);
  const isOver = (network: string) =>
    perMinute > 0 && windows.countOf(network) + (pending.get(network) ?? 0) >= perMinute;
  async function requireExisting(network: string, key: string): Promise<void> {
    if (rightKeys.has(hexOf(key)) || (await exists(key))) return;
    const resetS = windows.resetS(network);
    throw new TooManyRequests('too many calls with a wrong X-API-KEY from this address', { limit: perMinute, resetS });
  }
  const count = (network: string) => {
    if (windows.add(network, 1) === perMinute) reached();
  };
  return {
    async lookUp(address, key, find) {
      const network = normalizeIP(address);
      if (isOver(network)) await requireExisting(network, key);
      pending.set(network, (pending.get(network) ?? 0) + 1);
      try {
        const found = await find();
        if (found === undefined) count(network);
        else if (!rightKeys.has(hexOf(key))) remember(rightKeys, hexOf(key), true, REMEMBERED);
        return found;
      } finally {
        const left = (pending.get(network) ?? 1) - 1;
        if (left === 0) pending.delete(network);
        else pending.set(network, left);
      }
    },
  };
}

/** Checks whether keys exist, in batches: at most twenty look-ups a second. */
function lookUpTogether(pool: pg.Pool): (key: string) => Promise<boolean> {
  let waiting: string[] = [];
  let next: Promise<Set<string>> | undefined;
  return async (key) => {
    if (waiting.length >= BATCH) return false;
    waiting.push(key);
    next ??= new Promise<void>((resolve) => setTimeout(resolve, PAUSE_MS)).then(() => {
      const keys = waiting;
      waiting = [];
      next = undefined;
      return existingDigests(pool, keys);
    });
    return (await next).has(hexOf(key));
  };
}

function hexOf(key: string): string {
  return digestOf(key).toString('hex');
}
