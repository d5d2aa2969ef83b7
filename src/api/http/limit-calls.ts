import { normalizeIP } from '@fastify/rate-limit';
import { TooManyRequests } from './request-limits.ts';
import { createWindows } from '../windows.ts';

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
  const windows = createWindows(WINDOW_MS, REMEMBERED);
  return (source) => {
    if (windows.add(source, 1) <= perMinute) return;
    throw new TooManyRequests(detail, { limit: perMinute, resetS: windows.resetS(source) });
  };
}
