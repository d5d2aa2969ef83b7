import type { FastifyInstance } from 'fastify';
import type pg from 'pg';
import { ApiError } from '../contract/errors.ts';
import { admit, type Caller } from '../db/api-keys.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** the owner of the key in the request; set on every route under /api/v1 */
    caller: Caller;
  }
}

/**
 * Refuses calls without a valid key, and calls for an account that does not exist: a path parameter `account_id` that
 * names none is not found, whatever the route. Keys are looked up on every call, so a revoked one stops working at once.
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
