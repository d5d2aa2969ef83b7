import { normalizeIP } from '@fastify/rate-limit';
import type pg from 'pg';
import { digestOf, existingDigests } from '../../db/access/api-keys.ts';
import { TooManyRequests } from './request-limits.ts';

const WINDOW_MS = 60_000;
/** Number of addresses and keys to track; the oldest are evicted first. */
const REMEMBERED = 20_000;
/** Keys per look-up, and the time between look-ups, ms. */
const BATCH = 1_000;
const PAUSE_MS = 50;

/** Limits calls with wrong keys by IP address; IPv6 by /64 network, since one customer has a whole /64. */
export interface WrongKeys {
  /**
   * Call before a key is looked up. An address that used too many wrong keys may only continue with existing keys:
   * recently valid ones pass immediately, others after a batched look-up.
   * @throws TooManyRequests
   */
  check(address: string, key: string): Promise<void>;
  right(key: string): void;
  /** Counts a wrong key. Returns true when the address reaches the limit. */
  wrong(address: string): boolean;
}

/** Creates a limiter in the memory of this process. `perMinute` 0: no limit. */
export function limitWrongKeys(pool: pg.Pool, perMinute: number): WrongKeys {
  const windows = new Map<string, { endsAt: number; count: number }>();
  const rightKeys = new Map<string, true>();
  const exists = lookUpTogether(pool);
  const windowOf = (address: string) => {
    const network = normalizeIP(address);
    const window = windows.get(network);
    return window && window.endsAt > Date.now() ? window : undefined;
  };
  return {
    async check(address, key) {
      const window = windowOf(address);
      if (perMinute === 0 || !window || window.count < perMinute) return;
      if (rightKeys.has(hexOf(key)) || (await exists(key))) return;
      const resetS = Math.max(1, Math.ceil((window.endsAt - Date.now()) / 1_000));
      throw new TooManyRequests('too many calls with a wrong X-API-KEY from this address', {
        limit: perMinute,
        resetS,
      });
    },
    right(key) {
      const hex = hexOf(key);
      if (!rightKeys.has(hex)) remember(rightKeys, hex, true);
    },
    wrong(address) {
      const window = windowOf(address);
      if (window) window.count += 1;
      else remember(windows, normalizeIP(address), { endsAt: Date.now() + WINDOW_MS, count: 1 });
      return (window?.count ?? 1) === perMinute;
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

function remember<T>(map: Map<string, T>, key: string, value: T): void {
  map.delete(key);
  const [oldest] = map.keys();
  if (map.size >= REMEMBERED && oldest !== undefined) map.delete(oldest);
  map.set(key, value);
}

function hexOf(key: string): string {
  return digestOf(key).toString('hex');
}
