import Type from 'typebox';
import { Limit, Offset } from '../../contract/common.ts';
import { ApiError } from '../../contract/errors.ts';
import {
  CreateOAuthApp,
  OAuthApp,
  OAuthAppDeleted,
  OAuthAppList,
  OAuthAppVerification,
  UpdateOAuthApp,
  VerifyOAuthApp,
} from '../../contract/oauth.ts';
import { changeApp, createApp, deleteApp, getApp, listApps, type StoredApp } from '../../db/queries/oauth-apps.ts';
import { changedSettings, settingsOfNew } from '../../oauth/app-settings.ts';
import { verifyApp } from '../../oauth/verify-app.ts';
import { redirectUrlOf } from '../oauth-callback.ts';
import { existing, Id, responses, type Routes } from './route.ts';

const Params = Type.Object({ id: Id('oauthApp') });

/** Routes that manage what the operator registered at providers of OAuth 2.0. */
export const oauthAppRoutes: Routes = (app, { db, secrets, fetch, settings }) => {
  const redirectUrl = redirectUrlOf(settings.publicUrl);
  const shown = (stored: StoredApp) => toOAuthApp(stored, redirectUrl);

  app.post(
    '/oauth/apps',
    {
      config: { reach: 'installation', idempotent: true, audit: 'oauth_app.create' },
      schema: {
        tags: ['Accounts'],
        operationId: 'createOAuthApp',
        summary: 'Create an OAuth app',
        description:
          'Stores the client that you registered at a provider, with which mailboxes log in by OAuth 2.0. Secrets are stored ' +
          'encrypted and never returned. Register `redirect_url` of the response at the provider.',
        body: CreateOAuthApp,
        response: responses('The app', OAuthApp, 'already_exists'),
      },
    },
    async (request, reply) => {
      const app = await settingsOfNew(fetch, request.body);
      return request.once(reply, async (tx) => shown(await createApp(tx, secrets, app)));
    },
  );

  app.get(
    '/oauth/apps',
    {
      config: { reach: 'installation' },
      schema: {
        tags: ['Accounts'],
        operationId: 'listOAuthApps',
        summary: 'List OAuth apps',
        description: 'Returns all apps, without their secrets.',
        querystring: Type.Object({ offset: Offset, limit: Limit() }),
        response: responses('Apps, oldest first', OAuthAppList),
      },
    },
    async ({ query }) => {
      const { data, hasMore } = await listApps(db, secrets, query);
      return { object: 'OAuthApps', data: data.map(shown), has_more: hasMore };
    },
  );

  app.get(
    '/oauth/apps/:id',
    {
      config: { reach: 'installation' },
      schema: {
        tags: ['Accounts'],
        operationId: 'getOAuthApp',
        summary: 'Get an OAuth app',
        description: 'Returns the app with its status, without its secrets.',
        params: Params,
        response: responses('The app', OAuthApp, 'not_found'),
      },
    },
    async ({ params }) => shown(existing(await getApp(db, secrets, params.id), 'OAuth app')),
  );

  app.patch(
    '/oauth/apps/:id',
    {
      config: { reach: 'installation', audit: 'oauth_app.update' },
      schema: {
        tags: ['Accounts'],
        operationId: 'updateOAuthApp',
        summary: 'Update an OAuth app',
        description:
          'Omitted fields do not change. The accounts of a failing app try again within half a minute; it is `ok` when the provider ' +
          'has accepted one of them, or immediately if it has no accounts.',
        params: Params,
        body: UpdateOAuthApp,
        response: responses('The app', OAuthApp, 'not_found'),
      },
    },
    async ({ params: { id }, body }) => {
      const change = (app: StoredApp) => changedSettings(app, body);
      return shown(existing(await changeApp(db, secrets, id, change), 'OAuth app'));
    },
  );

  app.post(
    '/oauth/apps/:id/verify',
    {
      config: { reach: 'installation' },
      schema: {
        tags: ['Accounts'],
        operationId: 'verifyOAuthApp',
        summary: 'Verify an OAuth app',
        description:
          'Asks the provider about the client id, the secret and, where it says so, the redirect address; on request also ' +
          'about tokens without a user. Whether a mailbox accepts the tokens shows when it is connected.',
        params: Params,
        body: VerifyOAuthApp,
        response: responses('What each check found', OAuthAppVerification, 'not_found'),
      },
    },
    async ({ params, body }) => {
      const stored = existing(await getApp(db, secrets, params.id), 'OAuth app');
      const { subject, application_access: applicationAccess = false } = body;
      const checks = await verifyApp(fetch, stored, { redirectUrl, applicationAccess, subject });
      return {
        object: 'OAuthAppVerification',
        id: stored.id,
        ok: checks.every(({ outcome }) => outcome !== 'wrong'),
        checks,
      };
    },
  );

  app.delete(
    '/oauth/apps/:id',
    {
      config: { reach: 'installation', audit: 'oauth_app.delete' },
      schema: {
        tags: ['Accounts'],
        operationId: 'deleteOAuthApp',
        summary: 'Delete an OAuth app',
        description:
          'An app that accounts log in with cannot be deleted: connect them otherwise, or remove them, first.',
        params: Params,
        response: responses('The app is deleted', OAuthAppDeleted, 'not_found', 'already_exists'),
      },
    },
    async ({ params }) => {
      const result = await deleteApp(db, params.id);
      if (result === 'used') throw new ApiError('already_exists', 'accounts log in with this OAuth app');
      existing(result === 'none' ? undefined : result, 'OAuth app');
      return { object: 'OAuthAppDeleted', id: params.id, success: true };
    },
  );
};

function toOAuthApp(app: StoredApp, redirectUrl: string): OAuthApp {
  return {
    object: 'OAuthApp',
    id: app.id,
    provider: app.provider,
    name: app.name,
    client_id: app.clientId,
    has_client_secret: app.clientSecret !== null,
    service_account_email: app.serviceAccountEmail,
    tenant: app.tenant,
    cloud: app.cloud,
    issuer: app.endpoints.issuer,
    authorization_url: app.endpoints.authorizationUrl,
    token_url: app.endpoints.tokenUrl,
    scope: app.scope,
    client_auth: app.secretIn,
    hosts: app.hosts,
    redirect_url: redirectUrl,
    status: app.failingSince === null ? 'ok' : 'failing',
    status_detail: app.failure,
    failing_since: app.failingSince?.toISOString() ?? null,
    created_at: app.createdAt.toISOString(),
    updated_at: app.updatedAt.toISOString(),
  };
}
