import { isIPv6 } from 'node:net';
import type pg from 'pg';
import { ApiError } from '../contract/errors.ts';
import { digestOf, existingDigests } from '../db/api-keys.ts';

const WINDOW_MS = 60_000;
/** Addresses and keys that are remembered; the oldest are forgotten first. */
const REMEMBERED = 20_000;
/** Keys of one look-up, and the time between two of them, ms. */
const AT_ONCE = 1_000;
const PAUSE_MS = 50;

/** Too many calls; `retryAfterS` says when the next one may be made. */
export class TooManyRequests extends ApiError {
  readonly retryAfterS: number;
  constructor(detail: string, retryAfterS: number) {
    super('too_many_requests', detail);
    this.retryAfterS = retryAfterS;
  }
}

/** Limits calls with wrong keys by the address that they come from. */
export interface WrongKeys {
  /**
   * Called before a key is looked up. From an address that has used too many wrong keys, only keys that exist may go on:
   * those that were right lately at once, others after one look-up for all of them together.
   * @throws TooManyRequests
   */
  check(address: string, key: string): Promise<void>;
  right(key: string): void;
  /** True when the address has just reached the limit. */
  wrong(address: string): boolean;
}

/** In the memory of this process. `perMinute` 0: no limit. */
export function limitWrongKeys(pool: pg.Pool, perMinute: number): WrongKeys {
  const windows = new Map<string, { endsAt: number; count: number }>();
  const rightKeys = new Map<string, true>();
  const exists = lookUpTogether(pool);
  const windowOf = (address: string) => {
    const network = networkOf(address);
    const window = windows.get(network);
    return window && window.endsAt > Date.now() ? window : undefined;
  };
  return {
    async check(address, key) {
      const window = windowOf(address);
      if (perMinute === 0 || !window || window.count < perMinute) return;
      if (rightKeys.has(hexOf(key)) || (await exists(key))) return;
      const seconds = Math.max(1, Math.ceil((window.endsAt - Date.now()) / 1_000));
      throw new TooManyRequests('too many calls with a wrong X-API-KEY from this address', seconds);
    },
    right(key) {
      const hex = hexOf(key);
      if (!rightKeys.has(hex)) remember(rightKeys, hex, true);
    },
    wrong(address) {
      const window = windowOf(address);
      if (window) window.count += 1;
      else remember(windows, networkOf(address), { endsAt: Date.now() + WINDOW_MS, count: 1 });
      return (window?.count ?? 1) === perMinute;
    },
  };
}

/** Whether keys exist; at most twenty look-ups a second, whatever comes. */
function lookUpTogether(pool: pg.Pool): (key: string) => Promise<boolean> {
  let waiting: string[] = [];
  let next: Promise<Set<string>> | undefined;
  return async (key) => {
    if (waiting.length >= AT_ONCE) return false;
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

/** What stands for a customer in an address: one has a whole /64 of IPv6. */
export function networkOf(address: string): string {
  if (!isIPv6(address)) return address;
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address);
  if (mapped?.[1] !== undefined) return mapped[1];
  const [head = '', tail] = address.split('::');
  const groups = head.split(':').filter(Boolean);
  const after = tail?.split(':').filter(Boolean) ?? [];
  const missing = tail === undefined ? 0 : 8 - groups.length - after.length;
  const all = [...groups, ...Array<string>(Math.max(0, missing)).fill('0'), ...after];
  return all
    .slice(0, 4)
    .map((group) => group.replace(/^0+(?=.)/, '').toLowerCase())
    .join(':');
}
