import { normalizeIP } from '@fastify/rate-limit';
import { TooManyRequests } from './request-limits.ts';

const WINDOW_MS = 60_000;
/** Networks that are remembered; the oldest are forgotten first. */
const REMEMBERED = 10_000;

/** Limits calls without a key by the address that they come from, in this process. The result throws TooManyRequests. */
export function limitCalls(perMinute: number): (address: string) => void {
  const windows = new Map<string, { endsAt: number; count: number }>();
  return (address) => {
    const network = normalizeIP(address);
    const now = Date.now();
    let window = windows.get(network);
    if (!window || window.endsAt <= now) {
      windows.delete(network);
      const [oldest] = windows.keys();
      if (windows.size >= REMEMBERED && oldest !== undefined) windows.delete(oldest);
      windows.set(network, (window = { endsAt: now + WINDOW_MS, count: 0 }));
    }
    window.count += 1;
    if (window.count > perMinute) {
      const resetS = Math.ceil((window.endsAt - now) / 1000);
      throw new TooManyRequests('too many calls from this address', { limit: perMinute, resetS });
    }
  };
}
