import { ApiError } from '../../contract/errors.ts';
import { isId } from '../../contract/ids.ts';
import { Session } from '../../contract/session.ts';
import type { Caller } from '../../db/access/api-keys.ts';
import { createSession, deleteSession, findSession } from '../../db/access/sessions.ts';
import { sessionToken, setSessionCookie } from '../http/session-cookie.ts';
import { responses, responsesWith, type Routes } from './route.ts';

/** Routes that sign in to and out of the dashboard. */
export const sessionRoutes: Routes = (app, { db, pool, settings: { publicUrl } }) => {
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
      return sessionOf(request.caller, session.expiresAt);
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
      return sessionOf(request.caller, session?.expiresAt ?? null);
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
};

function sessionOf({ apiKeyId, apiKeyName, permissions, accountIds }: Caller, expiresAt: Date | null): Session {
  const isPerson = isId('person', apiKeyId);
  return {
    object: 'Session',
    api_key_id: isPerson ? null : apiKeyId,
    api_key_name: isPerson ? null : apiKeyName,
    person: isPerson ? { id: apiKeyId, name: apiKeyName } : null,
    permissions,
    accounts: accountIds && [...accountIds],
    expires_at: expiresAt?.toISOString() ?? null,
  };
}
