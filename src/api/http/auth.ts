import type { FastifyInstance, FastifyRequest } from 'fastify';
import type pg from 'pg';
import { ApiError } from '../../contract/errors.ts';
import type { Admission, Caller } from '../../db/access/api-keys.ts';
import { checkAccess } from './access.ts';
import type { Admissions } from './admissions.ts';
import type { ApiSettings } from '../deps.ts';
import { limitRequests } from './request-limits.ts';
import { keyOfSession } from './session-cookie.ts';
import { limitWrongKeys } from './wrong-keys.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** the API key of the request; set on every route under /api/v1 */
    caller: Caller;
  }
}

type Settings = Pick<ApiSettings, 'wrongKeysPerMinute' | 'requestsPerMinute' | 'publicUrl'>;

const NO_KEY = 'X-API-KEY is missing or not a valid key';

/**
 * Rejects calls without a valid key, calls that the key does not allow, and calls whose path parameter `account_id` names
 * no account. A revoked key stops working immediately (admissions.ts). Calls with wrong keys are limited by address; all
 * calls can be limited by address and by key. A session cookie (session-cookie.ts) stands for the key that created it.
 */
export async function authenticate(
  app: FastifyInstance,
  { pool, admissions }: { pool: pg.Pool; admissions: Admissions },
  settings: Settings,
): Promise<void> {
  const wrongKeys = limitWrongKeys(pool, settings.wrongKeysPerMinute, () =>
    app.log.warn('too many wrong API keys from one address'),
  );
  const { countAddress, countKey } = await limitRequests(app, settings.requestsPerMinute);
  app.decorateRequest('caller', null as unknown as Caller);

  async function admitKey({ ip }: FastifyRequest, key: string, accountId?: string): Promise<Admission> {
    const admission = await wrongKeys.lookUp(ip, key, () => admissions.admit(key, accountId));
    if (!admission) throw new ApiError('unauthorized', NO_KEY);
    return admission;
  }

  app.addHook('onRequest', async (request, reply) => {
    await countAddress(request, reply);
    const { account_id: accountId } = request.params as { account_id?: string };
    const key = request.headers['x-api-key'] ?? (await keyOfSession(request, pool, settings.publicUrl));
    if (!Buffer.isBuffer(key) && (typeof key !== 'string' || key === '')) throw new ApiError('unauthorized', NO_KEY);
    const admission =
      typeof key === 'string'
        ? await admitKey(request, key, accountId)
        : await admitSession(admissions, key, accountId);
    request.caller = admission.caller;
    await countKey(request, reply);
    checkAccess(request.caller, request);
    if (accountId !== undefined && !admission.accountExists) {
      throw new ApiError('not_found', 'no account has this id');
    }
  });
}

async function admitSession(admissions: Admissions, digest: Buffer, accountId: string | undefined): Promise<Admission> {
  const admission = await admissions.admit(digest, accountId);
  if (!admission) throw new ApiError('unauthorized', 'the session has expired: sign in again');
  return admission;
}
