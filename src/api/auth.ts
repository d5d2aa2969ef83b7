import type { FastifyInstance } from 'fastify';
import type pg from 'pg';
import { ApiError } from '../contract/errors.ts';
import { admit, type Caller } from '../db/api-keys.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** whose key the call came with; set on every route under /api/v1 */
    caller: Caller;
  }
}

/**
 * Lets only calls with a valid key in, and only those for an account that is there: a path parameter `account_id` that
 * names none is not found, whatever the route. Keys are looked up on every call, so that a revoked one stops at once.
 */
export function authenticate(app: FastifyInstance, pool: pg.Pool): void {
  app.decorateRequest('caller', null as unknown as Caller);
  app.addHook('onRequest', async (request) => {
    const key = request.headers['x-api-key'];
    const params = request.params as { account_id?: string };
    const admission = typeof key === 'string' && key !== '' ? await admit(pool, key, params.account_id) : undefined;
    if (!admission) throw new ApiError('unauthorized', 'X-API-KEY is missing or not a valid key');
    if (params.account_id !== undefined && !admission.accountExists) {
      throw new ApiError('not_found', 'there is no account with that id');
    }
    request.caller = admission.caller;
  });
}
