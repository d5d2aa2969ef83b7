import type { FastifyInstance } from 'fastify';
import type pg from 'pg';
import { ApiError } from '../contract/errors.ts';
import { type Admission, admit, type Caller } from '../db/api-keys.ts';
import { keyOfSession } from './session-cookie.ts';
import { limitWrongKeys } from './wrong-keys.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** the owner of the key in the request; set on every route under /api/v1 */
    caller: Caller;
  }
}

const NO_KEY = 'X-API-KEY is missing or not a valid key';

/**
 * Refuses calls without a valid key, and calls for an account that does not exist: a path parameter `account_id` that
 * names none is not found, whatever the route. Keys are looked up on every call, so a revoked one stops working at once.
 * Wrong ones are limited by address. The cookie of a session (see session-cookie.ts) stands for the key that it began with.
 */
export function authenticate(
  app: FastifyInstance,
  pool: pg.Pool,
  { wrongKeysPerMinute, publicUrl }: { wrongKeysPerMinute: number; publicUrl: string },
): void {
  const wrongKeys = limitWrongKeys(pool, wrongKeysPerMinute);
  app.decorateRequest('caller', null as unknown as Caller);
  app.addHook('onRequest', async (request) => {
    const params = request.params as { account_id?: string };
    const key = request.headers['x-api-key'] ?? (await keyOfSession(request, pool, publicUrl));
    if (Buffer.isBuffer(key)) {
      request.caller = await callerOfSession(pool, key, params.account_id);
      return;
    }
    if (typeof key !== 'string' || key === '') throw new ApiError('unauthorized', NO_KEY);
    await wrongKeys.check(request.ip, key);
    const admission = await admit(pool, key, params.account_id);
    if (!admission) {
      if (wrongKeys.wrong(request.ip)) request.log.warn('an address has used too many wrong keys');
      throw new ApiError('unauthorized', NO_KEY);
    }
    wrongKeys.right(key);
    request.caller = callerOf(admission, params.account_id);
  });
}

async function callerOfSession(pool: pg.Pool, digest: Buffer, accountId: string | undefined): Promise<Caller> {
  const admission = await admit(pool, digest, accountId);
  if (!admission) throw new ApiError('unauthorized', 'the session has ended: sign in again');
  return callerOf(admission, accountId);
}

function callerOf({ caller, accountExists }: Admission, accountId: string | undefined): Caller {
  if (accountId !== undefined && !accountExists) throw new ApiError('not_found', 'there is no account with that id');
  return caller;
}
