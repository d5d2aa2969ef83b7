import type { FastifyInstance } from 'fastify';
import type pg from 'pg';
import { ApiError } from '../contract/errors.ts';
import { admit, type Caller } from '../db/api-keys.ts';
import { checkAccess } from './access.ts';
import type { ApiSettings } from './deps.ts';
import { limitRequests } from './request-limits.ts';
import { limitWrongKeys } from './wrong-keys.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** the owner of the key in the request; set on every route under /api/v1 */
    caller: Caller;
  }
}

type Limits = Pick<ApiSettings, 'wrongKeysPerMinute' | 'requestsPerMinute'>;

const NO_KEY = 'X-API-KEY is missing or not a valid key';

/**
 * Refuses calls without a valid key or beyond what it may do, and calls for an account that does not exist: a path
 * parameter `account_id` that names none is not found, whatever the route. Keys are looked up on every call, so a revoked one stops working at once.
 * Wrong ones are limited by address, and so may be all calls, by address and by key.
 */
export async function authenticate(app: FastifyInstance, pool: pg.Pool, limits: Limits): Promise<void> {
  const wrongKeys = limitWrongKeys(pool, limits.wrongKeysPerMinute);
  const { countAddress, countKey } = await limitRequests(app, limits.requestsPerMinute);
  app.decorateRequest('caller', null as unknown as Caller);
  app.addHook('onRequest', async (request, reply) => {
    await countAddress(request, reply);
    const key = request.headers['x-api-key'];
    const params = request.params as { account_id?: string };
    if (typeof key !== 'string' || key === '') throw new ApiError('unauthorized', NO_KEY);
    await wrongKeys.check(request.ip, key);
    const admission = await admit(pool, key, params.account_id);
    if (!admission) {
      if (wrongKeys.wrong(request.ip)) request.log.warn('an address has used too many wrong keys');
      throw new ApiError('unauthorized', NO_KEY);
    }
    wrongKeys.right(key);
    request.caller = admission.caller;
    await countKey(request, reply);
    checkAccess(request.caller, request);
    if (params.account_id !== undefined && !admission.accountExists) {
      throw new ApiError('not_found', 'there is no account with that id');
    }
  });
}
