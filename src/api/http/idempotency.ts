import { setTimeout as sleep } from 'node:timers/promises';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { ApiError, ERRORS } from '../../contract/errors.ts';
import { type IdKind, isId } from '../../contract/ids.ts';
import type { Db, Queryable, Tx } from '../../db/driver/client.ts';
import {
  type IdempotencyKey,
  storeResponse,
  type StoredCall,
  readKey,
  releaseKey,
  reserveKey,
} from '../../db/access/idempotency.ts';
import { newId } from '../../new-id.ts';
import { keyedEmailId } from '../../outgoing/keyed-id.ts';
import { SealError, type Secrets } from '../../security/secrets.ts';
import type { Signer } from './cursor.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** the route honours `Idempotency-Key`; `streamed`: with `firstOf`, when it has read its body */
    idempotent?: boolean | 'streamed';
    /**
     * The kind of id that the call creates. The id is stored with the key: a repeated or concurrent call creates the same
     * object and does not wait for a first call that may have crashed.
     */
    reserves?: IdKind;
  }
  interface FastifyRequest {
    /** the key that this call reserved, to be released or stored with the response */
    reservedKey: IdempotencyKey | null;
    /** id of the object that this call creates, on routes with `reserves` */
    reservedId: string;
    /** an earlier call with the same key reserved that id, and has no stored response: it may have made the object */
    repeatsUnanswered: boolean;
    /**
     * On `streamed` routes: the id that the first call with this key and this `content` of the body has created; `id` if that is
     * this call, or it has no key.
     */
    firstOf(id: string, content: string): Promise<string>;
    /** As `firstOf`, without reserving the key: undefined when no call before had it, or this one has none. */
    earlierOf(content: string): Promise<string | undefined>;
    /**
     * Does the work of a route with `idempotent` in one transaction, in which the response is stored, too: a process that is
     * killed has done both or neither.
     */
    once<T>(reply: FastifyReply, work: (tx: Tx) => Promise<T>): Promise<T>;
  }
}

const MAX_KEY_LENGTH = 255;
const PURPOSE = 'idempotency';
/** How long a second call waits for the response to the first, ms. */
const WAIT_MS = 60_000;
const POLL_MS = 150;

export interface IdempotencyDeps {
  db: Db;
  secrets: Secrets;
  signer: Signer;
}

/**
 * Honours `Idempotency-Key` on routes with `idempotent`: repeated calls get the first response for 24 h, without a second
 * execution. Responses are stored encrypted, since they may contain a key or a secret. After a 5xx or 429, and after a 401 where an
 * id is reserved, the same key can be used again: either nothing was done, or the reserved id identifies the result.
 */
export function honourIdempotencyKeys(app: FastifyInstance, deps: IdempotencyDeps): void {
  const { db, secrets, signer } = deps;
  app.decorateRequest('reservedKey', null);
  app.decorateRequest('reservedId', '');
  app.decorateRequest('repeatsUnanswered', false);
  decorateStreamed(app, deps);
  decorateOnce(app, deps);

  app.addHook('preHandler', async (request, reply) => {
    const { reserves, idempotent } = request.routeOptions.config;
    if (reserves) request.reservedId = newId(reserves);
    const key = idempotent ? keyOf(request) : undefined;
    if (!key || idempotent === 'streamed') return;
    const text = fingerprintText(request);
    const fingerprint = signer.sign(PURPOSE, text);
    if (reserves === 'email') request.reservedId = keyedEmailId(secrets, { ...key, fingerprint }, new Date());
    const call = await reserveKey(db, key, fingerprint, reserves ? request.reservedId : null);
    if (!call) {
      request.reservedKey = key;
      return;
    }
    if (!signer.isSigned(PURPOSE, text, call.fingerprint)) throw usedForAnother();
    if (reserves && !call.response && call.reservedId) {
      request.reservedKey = key;
      request.reservedId = call.reservedId;
      request.repeatsUnanswered = true;
      return;
    }
    const { status, sealedBody } = await responseOf(db, key, call);
    return reply
      .code(status)
      .header('Idempotency-Replayed', 'true')
      .type('application/json; charset=utf-8')
      .send(opened(() => secrets.open(sealContext(key), sealedBody)));
  });

  app.addHook('onSend', async (request, reply, payload) => {
    const key = request.reservedKey;
    if (!key) return payload;
    request.reservedKey = null;
    const { statusCode: status } = reply;
    const { reserves } = request.routeOptions.config;
    // nothing was done, as the account is disconnected: the same call succeeds once that is reconnected
    const isDisconnected = reserves !== undefined && status === ERRORS.invalid_credentials.status;
    const isTransient = status >= 500 || status === ERRORS.too_many_requests.status || isDisconnected;
    if (isTransient || typeof payload !== 'string') {
      if (!reserves) await releaseKey(db, key);
    } else {
      await store(db, secrets, request, { key, status, body: payload }).catch((err: unknown) => {
        // it was done: its response is worth more than that of a repeated call
        request.log.error({ err, apiKeyId: key.apiKeyId }, 'could not store response of call with Idempotency-Key');
      });
    }
    return payload;
  });
}

function decorateStreamed(app: FastifyInstance, { db, signer }: IdempotencyDeps): void {
  const textOf = ({ method, url }: FastifyRequest, content: string) => `${method} ${url}\n${content}`;
  const idOf = (call: StoredCall, text: string) => {
    if (!call.reservedId || !signer.isSigned(PURPOSE, text, call.fingerprint)) throw usedForAnother();
    return call.reservedId;
  };
  app.decorateRequest('firstOf', async function (this: FastifyRequest, id, content) {
    const key = keyOf(this);
    if (!key) return id;
    const text = textOf(this, content);
    const call = await reserveKey(db, key, signer.sign(PURPOSE, text), id);
    return call ? idOf(call, text) : id;
  });
  app.decorateRequest('earlierOf', async function (this: FastifyRequest, content) {
    const key = keyOf(this);
    const call = key && (await readKey(db, key));
    return call && idOf(call, textOf(this, content));
  });
}

function decorateOnce(app: FastifyInstance, { db, secrets }: IdempotencyDeps): void {
  app.decorateRequest('once', async function (this: FastifyRequest, reply, work) {
    const key = this.reservedKey;
    const result = await db.transaction(async (tx) => {
      const done = await work(tx);
      const serialize = reply.getSerializationFunction('200', 'application/json') ?? JSON.stringify;
      const isStored = !key || (await store(tx, secrets, this, { key, status: 200, body: serialize(done) }));
      // released by a process that stops, and may be another call's
      if (!isStored) throw new ApiError('service_unavailable', 'the process is stopping: nothing was done');
      return done;
    });
    this.reservedKey = null;
    return result;
  });
}

/** Stores the response to a call, encrypted. False: the key is not this call's any longer, or has a response. */
async function store(
  db: Queryable,
  secrets: Secrets,
  request: FastifyRequest,
  { key, status, body }: { key: IdempotencyKey; status: number; body: string },
): Promise<boolean> {
  const sealedBody = secrets.seal(sealContext(key), body);
  return storeResponse(db, key, { status, sealedBody, accountId: accountOf(request, body) });
}

/** The key of a call; undefined: it has none. */
function keyOf({ headers, caller }: FastifyRequest): IdempotencyKey | undefined {
  const given = headers['idempotency-key'];
  if (given === undefined) return undefined;
  if (typeof given !== 'string' || given === '' || given.length > MAX_KEY_LENGTH) {
    throw new ApiError('invalid_parameters', `Idempotency-Key must have 1 to ${MAX_KEY_LENGTH} characters`);
  }
  return { apiKeyId: caller.apiKeyId, key: given };
}

const usedForAnother = () => new ApiError('already_exists', 'Idempotency-Key was used for another call');

/** The account of a response: from the path, or the one that the call connected. */
function accountOf(request: FastifyRequest, response: string): string | undefined {
  const { account_id: ofPath } = request.params as { account_id?: string };
  if (ofPath !== undefined || !response.startsWith('{')) return ofPath;
  const { id } = JSON.parse(response) as { id?: unknown };
  return typeof id === 'string' && isId('account', id) ? id : undefined;
}

/** Identifies a call by method, URL and parsed body. */
function fingerprintText(request: FastifyRequest): string {
  return `${request.method} ${request.url}\n${JSON.stringify(request.body ?? null)}`;
}

async function responseOf(
  db: Queryable,
  key: IdempotencyKey,
  first: StoredCall,
): Promise<NonNullable<StoredCall['response']>> {
  const until = performance.now() + WAIT_MS;
  for (let call: StoredCall | undefined = first; call && performance.now() < until; call = await readKey(db, key)) {
    if (call.response) return call.response;
    await sleep(POLL_MS);
  }
  throw new ApiError('already_exists', 'a call with this Idempotency-Key is in progress or has failed; retry later');
}

function opened(open: () => string): string {
  try {
    return open();
  } catch (error) {
    if (!(error instanceof SealError)) throw error;
    const detail = 'the call with this Idempotency-Key completed, but its response can no longer be decrypted';
    throw new ApiError('already_exists', detail, { cause: error });
  }
}

function sealContext({ apiKeyId, key }: IdempotencyKey) {
  return { table: 'idempotency_keys', column: 'response', id: `${apiKeyId} ${key}` };
}
