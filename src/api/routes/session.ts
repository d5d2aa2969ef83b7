import { ReplacePassword } from '../../contract/access/person.ts';
import { Session } from '../../contract/access/session.ts';
import { ApiError } from '../../contract/errors.ts';
import { isId } from '../../contract/ids.ts';
import type { Caller } from '../../db/access/api-keys.ts';
import { findLogin, replacePassword } from '../../db/access/invited-persons.ts';
import { getPerson } from '../../db/access/persons.ts';
import { createSession, deleteSession, findSession } from '../../db/access/sessions.ts';
import type { Queryable } from '../../db/driver/client.ts';
import { isPassword, sealPassword } from '../../security/passwords.ts';
import { limitBy } from '../http/limit-calls.ts';
import { sessionToken, setSessionCookie } from '../http/session-cookie.ts';
import { markBrowser } from '../known-browser.ts';
import { responses, responsesWith, type Routes } from './route.ts';

/** Calls that compare a password, per minute and person. */
const PASSWORDS_PER_MINUTE = 10;

/** Routes that sign in to and out of the dashboard. */
export const sessionRoutes: Routes = (app, { db, pool, settings: { publicUrl } }) => {
  const limitOfPerson = limitBy(PASSWORDS_PER_MINUTE, 'too many wrong passwords; try again later');

  app.post(
    '/session',
    {
      config: { reach: 'caller', audit: 'session.create' },
      schema: {
        tags: ['API keys'],
        operationId: 'signIn',
        summary: 'Sign in',
        description:
          'Creates a session of the key in `X-API-KEY` and sets a cookie that browsers can use instead of the key. The ' +
          'session lasts 12 hours, or until the key expires or is revoked. Scripts cannot read the cookie. State-changing ' +
          'calls with the cookie are accepted from pages of this origin only.',
        response: responses('The session', Session),
      },
    },
    async (request, reply) => {
      if (request.headers['x-api-key'] === undefined) {
        throw new ApiError('unauthorized', 'authenticate with X-API-KEY to create a session');
      }
      const before = sessionToken(request, publicUrl);
      if (before !== undefined) await deleteSession(pool, before);
      const session = await createSession(db, request.caller.apiKeyId);
      setSessionCookie(request, reply, { session, publicUrl });
      return sessionOf(db, request.caller, session.expiresAt);
    },
  );

  app.get(
    '/session',
    {
      config: { reach: 'caller' },
      schema: {
        tags: ['API keys'],
        operationId: 'getSession',
        summary: 'Get the session',
        description:
          'Returns the key that the call authenticates with, or the person, what they may do, and when the session expires.',
        response: responses('The session', Session),
      },
    },
    async (request) => {
      const token = request.headers['x-api-key'] === undefined ? sessionToken(request, publicUrl) : undefined;
      const session = token === undefined ? undefined : await findSession(pool, token);
      return sessionOf(db, request.caller, session?.expiresAt ?? null);
    },
  );

  app.delete(
    '/session',
    {
      config: { reach: 'caller' },
      schema: {
        tags: ['API keys'],
        operationId: 'signOut',
        summary: 'Sign out',
        description: 'Deletes the session and its cookie.',
        response: responsesWith(204, 'The session is deleted', null),
      },
    },
    async (request, reply) => {
      const token = sessionToken(request, publicUrl);
      if (token !== undefined) await deleteSession(pool, token);
      setSessionCookie(request, reply, { session: null, publicUrl });
      return reply.code(204).send();
    },
  );

  app.post(
    '/session/password',
    {
      config: { reach: 'caller', audit: 'person.change_password' },
      schema: {
        tags: ['People'],
        operationId: 'replacePassword',
        summary: 'Replace the own password',
        description:
          'For an invited person who is signed in; others get 403. The other sessions of the person end. Returns 400 when ' +
          '`current_password` is wrong.',
        body: ReplacePassword,
        response: responsesWith(204, 'The password is replaced', null, 'forbidden'),
      },
    },
    async (request, reply) => {
      const { id, password } = (await findLogin(db, { id: request.caller.apiKeyId })) ?? {};
      if (id === undefined) throw new ApiError('forbidden', 'only people who signed in with a password have one');
      request.auditedId = id;
      limitOfPerson(id);
      const { current_password: given, new_password: chosen } = request.body;
      if (!password || !(await isPassword(given, password))) throw wrongPassword();
      const change = { id, before: password, after: await sealPassword(chosen) };
      if (!(await replacePassword(db, change, sessionToken(request, publicUrl)))) throw wrongPassword();
      markBrowser(request, reply, { publicUrl, stored: change.after });
      return reply.code(204).send();
    },
  );
};

const wrongPassword = () => new ApiError('invalid_parameters', 'current_password is wrong');

async function sessionOf(
  db: Queryable,
  { apiKeyId, apiKeyName, permissions, accountIds }: Caller,
  expiresAt: Date | null,
): Promise<Session> {
  const person = isId('person', apiKeyId) ? await getPerson(db, apiKeyId) : undefined;
  return {
    object: 'Session',
    api_key_id: person ? null : apiKeyId,
    api_key_name: person ? null : apiKeyName,
    person: person ? { id: apiKeyId, name: apiKeyName, source: person.source } : null,
    permissions,
    accounts: accountIds && [...accountIds],
    expires_at: expiresAt?.toISOString() ?? null,
  };
}
