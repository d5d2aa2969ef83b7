import { normalizeIP } from '@fastify/rate-limit';
import { TooManyRequests } from './request-limits.ts';

const WINDOW_MS = 60_000;
/** Number of sources to track; the oldest are evicted first. */
const REMEMBERED = 10_000;

/** Limits calls without a key by their IP address, in this process. The returned function throws TooManyRequests. */
export function limitCalls(perMinute: number): (address: string) => void {
  const limit = limitBy(perMinute, 'too many calls from this address');
  return (address) => limit(normalizeIP(address));
}

/** Limits calls by source, in this process. The returned function throws TooManyRequests with `detail`. */
export function limitBy(perMinute: number, detail: string): (source: string) => void {
  const windows = new Map<string, { endsAt: number; count: number }>();
  return (source) => {
    const now = Date.now();
    let window = windows.get(source);
    if (!window || window.endsAt <= now) {
      windows.delete(source);
      const [oldest] = windows.keys();
      if (windows.size >= REMEMBERED && oldest !== undefined) windows.delete(oldest);
      windows.set(source, (window = { endsAt: now + WINDOW_MS, count: 0 }));
    }
    window.count += 1;
    if (window.count > perMinute) {
      const resetS = Math.ceil((window.endsAt - now) / 1000);
      throw new TooManyRequests(detail, { limit: perMinute, resetS });
    }
  };
}
