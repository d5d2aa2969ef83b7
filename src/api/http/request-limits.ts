import rateLimit from '@fastify/rate-limit';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { ApiError } from '../../contract/errors.ts';

const WINDOW_MS = 60_000;
/** Number of keys and addresses to track; the least recently used are evicted first. */
const COUNTED = 20_000;

/** An exceeded limit: calls per minute, and seconds until the minute ends. */
interface Exceeded {
  limit: number;
  resetS: number;
}

/** Error of a caller that exceeded a rate limit; its response carries `Retry-After` and the RateLimit headers. */
export class TooManyRequests extends ApiError {
  readonly exceeded: Exceeded;
  constructor(detail: string, exceeded: Exceeded) {
    super('too_many_requests', detail);
    this.exceeded = exceeded;
  }
}

/** Sets the RateLimit headers (draft-ietf-httpapi-ratelimit-headers, the form with three headers). */
export function showLimit(reply: FastifyReply, { limit, resetS }: Exceeded, remaining: number): void {
  reply
    .header('RateLimit-Limit', String(limit))
    .header('RateLimit-Remaining', String(remaining))
    .header('RateLimit-Reset', String(resetS));
}

/** Counts a call. @throws TooManyRequests */
export type CountCall = (request: FastifyRequest, reply: FastifyReply) => Promise<void>;

/**
 * Counts calls in this process: by address before the key is looked up (IPv6 by /64 network), and by key. The headers
 * show the limit that is closer to exhaustion. 0: no limit.
 */
export async function limitRequests(
  app: FastifyInstance,
  perMinute: { key: number; address: number },
): Promise<{ countAddress: CountCall; countKey: CountCall }> {
  await app.register(rateLimit, { global: false, timeWindow: WINDOW_MS, cache: COUNTED });
  app.decorateRequest('callsLeft', null);
  return {
    countAddress: counter(app, 'from this address', { max: perMinute.address }),
    countKey: counter(app, 'with this API key', {
      max: perMinute.key,
      keyGenerator: (request) => request.caller.apiKeyId,
    }),
  };
}

declare module 'fastify' {
  interface FastifyRequest {
    /** remaining calls of the limit that the headers show */
    callsLeft: number | null;
  }
}

type LimiterOptions = NonNullable<Parameters<FastifyInstance['createRateLimit']>[0]>;

function counter(app: FastifyInstance, whose: string, options: LimiterOptions & { max: number }): CountCall {
  if (options.max === 0) return async () => {};
  const count = app.createRateLimit(options);
  return async (request, reply) => {
    const state = await count(request);
    if (state.isAllowed) return;
    const limit = { limit: state.max, resetS: Math.max(1, state.ttlInSeconds) };
    if (state.isExceeded) throw new TooManyRequests(`too many calls ${whose} within a minute`, limit);
    if (request.callsLeft !== null && request.callsLeft <= state.remaining) return;
    request.callsLeft = state.remaining;
    showLimit(reply, limit, state.remaining);
  };
}
