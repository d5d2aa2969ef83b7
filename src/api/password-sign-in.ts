import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import Type from 'typebox';
import { GivenPassword, NewPassword } from '../contract/access/person.ts';
import type { AuditAction } from '../contract/audit.ts';
import { ApiError } from '../contract/errors.ts';
import { recordAudit } from '../db/access/audit.ts';
import { choosePassword, findInvited, findLogin, loginOf, signInWith } from '../db/access/invited-persons.ts';
import { labelOf } from '../db/access/persons.ts';
import { deleteSession } from '../db/access/sessions.ts';
import { isPassword, sealPassword } from '../security/passwords.ts';
import type { ApiDeps } from './deps.ts';
import { isKnownBrowser, markBrowser } from './known-browser.ts';
import { limitCalls } from './http/limit-calls.ts';
import { TooManyRequests } from './http/request-limits.ts';
import { isSameOrigin, sessionToken, setSessionCookie } from './http/session-cookie.ts';
import { limitAttempts } from './sign-in-attempts.ts';

/*
 * Sign-in of invited people with email address and password, and the link at which they choose it. The responses are the same,
 * and take as long, whether an address is that of a person or not. The token of a link is behind the `#` of its URL, which
 * browsers do not send: it is in no log of a proxy.
 */

const CALLS_PER_MINUTE = 60;
/** Passwords that wait to be compared, in each process; each takes a fraction of a second. */
const MAX_WAITING = 20;

const email = Type.String({ maxLength: 320 });
const token = Type.String({ maxLength: 64 });

/** Serves `POST /sign-in/password`, `/sign-in/invitation` and `/sign-in/invitation/accept`. */
export function servePasswordSignIn(instance: FastifyInstance, deps: ApiDeps): void {
  const app = instance.withTypeProvider<TypeBoxTypeProvider>();
  const { db, pool, logger, settings } = deps;
  const { publicUrl } = settings;
  const limit = limitCalls(CALLS_PER_MINUTE);
  const attempts = limitAttempts(() => logger.warn('too many wrong passwords'));

  /** @throws ApiError unauthorized, TooManyRequests */
  function check(request: FastifyRequest): void {
    limit(request.ip);
    if (!isSameOrigin(request, publicUrl)) {
      throw new ApiError('unauthorized', 'this call must come from the sign-in page');
    }
  }

  let waiting = 0;
  async function compare(given: string, stored: string | null): Promise<boolean> {
    waiting += 1;
    return isPassword(given, stored).finally(() => (waiting -= 1));
  }

  const credentials = Type.Object({ email, password: GivenPassword });
  app.post('/sign-in/password', { schema: { hide: true, body: credentials } }, async (request, reply) => {
    check(request);
    const login = loginOf(request.body.email);
    const { id = '', label = '', password = null } = (await findLogin(db, { login })) ?? {};
    const isKnown = password !== null && isKnownBrowser(request, { publicUrl, stored: password });
    if (waiting >= MAX_WAITING && !isKnown) {
      throw new TooManyRequests('too many people sign in at this moment; try again', { limit: MAX_WAITING, resetS: 5 });
    }
    const attempt = attempts.begin({ ip: request.ip, login, isKnown });
    const isRight = await compare(request.body.password, password);
    const session = isRight && password !== null ? await signInWith(db, { id, password }) : undefined;
    if (session === undefined || password === null) {
      throw new ApiError('unauthorized', 'the email address or the password is wrong');
    }
    attempt.succeed();
    const before = sessionToken(request, publicUrl);
    if (before !== undefined) await deleteSession(pool, before);
    await audit(deps, request, { action: 'session.create', id, label });
    setSessionCookie(request, reply, { session, publicUrl });
    markBrowser(request, reply, { publicUrl, stored: password });
    return reply.code(204).send();
  });

  const link = Type.Object({ token });
  app.post('/sign-in/invitation', { schema: { hide: true, body: link } }, async (request) => {
    check(request);
    const { name, email: address } = await invitedBy(deps, request.body.token);
    return { name, email: address };
  });

  const choice = Type.Object({ token, password: NewPassword });
  app.post('/sign-in/invitation/accept', { schema: { hide: true, body: choice } }, async (request, reply) => {
    check(request);
    const { body } = request;
    const person = await invitedBy(deps, body.token);
    const stored = await sealPassword(body.password);
    if (!(await choosePassword(db, body.token, stored))) throw noLink();
    markBrowser(request, reply, { publicUrl, stored });
    await audit(deps, request, { action: 'person.accept', id: person.id, label: labelOf(person) });
    return reply.code(204).send();
  });
}

/** @throws ApiError not_found */
async function invitedBy({ db }: ApiDeps, given: string): Promise<{ id: string; name: string; email: string }> {
  const person = await findInvited(db, given);
  if (!person) throw noLink();
  return person;
}

const noLink = () => new ApiError('not_found', 'this link was used, was replaced or has expired: ask for a new one');

async function audit(
  { db, logger }: ApiDeps,
  { id: requestId, ip: address }: FastifyRequest,
  { action, id, label }: { action: AuditAction; id: string; label: string },
): Promise<void> {
  const made = action === 'session.create' ? { objectId: null, objectName: null } : { objectId: id, objectName: label };
  const call = { action, status: 204, apiKeyId: id, address, requestId };
  await recordAudit(db, { at: new Date(), ...call, actorName: label, ...made }).catch((err: unknown) =>
    logger.error({ err, ...call }, 'could not store audit record'),
  );
}
