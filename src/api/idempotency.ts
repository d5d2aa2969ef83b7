import { setTimeout as sleep } from 'node:timers/promises';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { ApiError } from '../contract/errors.ts';
import type { IdKind } from '../contract/ids.ts';
import type { Queryable } from '../db/client.ts';
import { type IdempotencyKey, keepAnswer, type KeptCall, readKey, releaseKey, takeKey } from '../db/idempotency.ts';
import { newId } from '../new-id.ts';
import type { Secrets } from '../secrets.ts';
import type { Signer } from './cursor.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** the route honours `Idempotency-Key` */
    idempotent?: boolean;
    /**
     * The kind of id that the call makes. It is kept with the key, so that a call that is made again, or at the same time,
     * makes the same thing: nobody has to wait for a first call that may have died.
     */
    reserves?: IdKind;
  }
  interface FastifyRequest {
    /** the key that this call holds and must settle when it is answered */
    heldKey: IdempotencyKey | null;
    /** the id for what this call makes, on routes that say `reserves` */
    reservedId: string;
  }
}

const MAX_KEY_LENGTH = 255;
const PURPOSE = 'idempotency';
/** A second call waits so long for the first one to be answered, ms. */
const PATIENCE_MS = 60_000;
const LOOK_EVERY_MS = 150;

export interface IdempotencyDeps {
  db: Queryable;
  secrets: Secrets;
  signer: Signer;
}

/**
 * `Idempotency-Key` (CONTRACT "General") on the routes that say `idempotent`: the first answer is given again for 24 h
 * and nothing is done twice. Answers are kept sealed, since they may hold a key or a secret. Where the first call failed
 * for no fault of the caller (5xx) the same key may be used to try again: nothing was done, or the id that the route
 * reserves says what.
 */
export function honourIdempotencyKeys(app: FastifyInstance, deps: IdempotencyDeps): void {
  const { db, secrets, signer } = deps;
  app.decorateRequest('heldKey', null);
  app.decorateRequest('reservedId', '');

  app.addHook('preHandler', async (request, reply) => {
    const given = request.headers['idempotency-key'];
    const { reserves } = request.routeOptions.config;
    if (reserves) request.reservedId = newId(reserves);
    if (!request.routeOptions.config.idempotent || given === undefined) return;
    if (typeof given !== 'string' || given === '' || given.length > MAX_KEY_LENGTH) {
      throw new ApiError('invalid_parameters', `Idempotency-Key must have 1 to ${MAX_KEY_LENGTH} characters`);
    }
    const key = { apiKeyId: request.caller.apiKeyId, key: given };
    const text = fingerprintText(request);
    const call = await takeKey(db, key, signer.sign(PURPOSE, text), reserves ? request.reservedId : null);
    if (!call) {
      request.heldKey = key;
      return;
    }
    if (!signer.isSigned(PURPOSE, text, call.fingerprint)) {
      throw new ApiError('already_exists', 'Idempotency-Key was used for another call');
    }
    if (reserves && !call.answer && call.reservedId) {
      request.heldKey = key;
      request.reservedId = call.reservedId;
      return;
    }
    const { status, sealedBody } = await answerOf(db, key, call);
    return reply
      .code(status)
      .header('Idempotency-Replayed', 'true')
      .type('application/json; charset=utf-8')
      .send(secrets.open(place(key), sealedBody));
  });

  app.addHook('onSend', async (request, reply, payload) => {
    const key = request.heldKey;
    if (!key) return payload;
    request.heldKey = null;
    if (reply.statusCode >= 500 || typeof payload !== 'string') {
      if (!request.routeOptions.config.reserves) await releaseKey(db, key);
    } else await keepAnswer(db, key, { status: reply.statusCode, sealedBody: secrets.seal(place(key), payload) });
    return payload;
  });
}

/** The same call is the same method, URL and body, however the body is spaced. */
function fingerprintText(request: FastifyRequest): string {
  return `${request.method} ${request.url}\n${JSON.stringify(request.body ?? null)}`;
}

async function answerOf(db: Queryable, key: IdempotencyKey, first: KeptCall): Promise<NonNullable<KeptCall['answer']>> {
  const until = Date.now() + PATIENCE_MS;
  for (let call: KeptCall | undefined = first; call && Date.now() < until; call = await readKey(db, key)) {
    if (call.answer) return call.answer;
    await sleep(LOOK_EVERY_MS);
  }
  throw new ApiError(
    'already_exists',
    'a call with this Idempotency-Key is not answered yet, or has failed: try again',
  );
}

function place({ apiKeyId, key }: IdempotencyKey) {
  return { table: 'idempotency_keys', column: 'response', id: `${apiKeyId} ${key}` };
}
