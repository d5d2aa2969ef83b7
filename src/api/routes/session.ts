import { ApiError } from '../../contract/errors.ts';
import { Session } from '../../contract/session.ts';
import { createSession, deleteSession, findSession } from '../../db/access/sessions.ts';
import { sessionToken, setSessionCookie } from '../http/session-cookie.ts';
import { responses, responsesWith, type Routes } from './route.ts';

/** Signing in and out of the dashboard. */
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
          'Begins a session of the key in `X-API-KEY` and sets its cookie, which every call accepts instead of the key: ' +
          'for pages in a browser. It lasts 12 hours, or as long as the key. No script can read the cookie. With it, calls ' +
          'that change something are accepted from pages of this origin only.',
        response: responses('Signed in', Session),
      },
    },
    async (request, reply) => {
      if (request.headers['x-api-key'] === undefined) {
        throw new ApiError('unauthorized', 'a session is begun with X-API-KEY');
      }
      const { apiKeyId, apiKeyName } = request.caller;
      const before = sessionToken(request, publicUrl);
      if (before !== undefined) await deleteSession(pool, before);
      const session = await createSession(db, apiKeyId);
      setSessionCookie(request, reply, { session, publicUrl });
      return {
        object: 'Session',
        api_key_id: apiKeyId,
        api_key_name: apiKeyName,
        expires_at: session.expiresAt.toISOString(),
      };
    },
  );

  app.get(
    '/session',
    {
      config: { reach: 'caller' },
      schema: {
        tags: ['API keys'],
        operationId: 'getSession',
        summary: 'Who is signed in',
        response: responses('The key that the call was made with', Session),
      },
    },
    async (request) => {
      const { apiKeyId, apiKeyName } = request.caller;
      const token = request.headers['x-api-key'] === undefined ? sessionToken(request, publicUrl) : undefined;
      const session = token === undefined ? undefined : await findSession(pool, token);
      return {
        object: 'Session',
        api_key_id: apiKeyId,
        api_key_name: apiKeyName,
        expires_at: session?.expiresAt.toISOString() ?? null,
      };
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
        response: responsesWith(204, 'Signed out', null),
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
