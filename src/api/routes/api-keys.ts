import Type from 'typebox';
import { ApiKeyCreated, ApiKeyDeleted, ApiKeyList, CreateApiKey } from '../../contract/api-key.ts';
import { Limit, Offset, readDate } from '../../contract/common.ts';
import { ApiError } from '../../contract/errors.ts';
import { createApiKey, deleteApiKey, listApiKeys } from '../../db/access/api-keys.ts';
import { keepWayIn } from '../../db/access/last-way-in.ts';
import { checkAccounts } from '../endpoint-rules.ts';
import { responses, existing, Id, type Routes } from './route.ts';

/** Routes that list, create and revoke API keys. */
export const apiKeyRoutes: Routes = (app, { db, admissions }) => {
  app.get(
    '/api-keys',
    {
      config: { reach: 'installation' },
      schema: {
        tags: ['API keys'],
        operationId: 'listAPIKeys',
        summary: 'List API keys',
        description: 'Returns the keys that are not revoked.',
        querystring: Type.Object({
          offset: Offset,
          limit: Limit(),
          created_by: Type.Optional(
            Type.String({ description: '`pk_…`: keys created with this key, which may be revoked' }),
          ),
        }),
        response: responses('API keys, oldest first, without their values', ApiKeyList),
      },
    },
    async ({ query }) => {
      const { data, hasMore } = await listApiKeys(db, { ...query, createdBy: query.created_by });
      return { object: 'ApiKeys', data, has_more: hasMore };
    },
  );

  app.post(
    '/api-keys',
    {
      config: { reach: 'installation', isAdministration: true, idempotent: true, audit: 'api_key.create' },
      schema: {
        tags: ['API keys'],
        operationId: 'createAPIKey',
        summary: 'Create an API key',
        description:
          'Only this response contains the value of the key. A key with `permissions: "read"` cannot change anything; one ' +
          'with `"operate"` everything except keys and people. A key ' +
          'with `accounts` can see and change these accounts only: other accounts return 404, and installation-wide routes ' +
          '(keys, endpoints, replays, the audit log, connecting another mailbox) return 403. A limited key cannot create keys.',
        body: CreateApiKey,
        response: responses('The key with its value', ApiKeyCreated, 'already_exists'),
      },
    },
    async (request, reply) => {
      const { body, caller } = request;
      const expiresAt = body.expires_at ? readDate(body.expires_at) : null;
      if (expiresAt && expiresAt.getTime() <= Date.now()) {
        throw new ApiError('invalid_parameters', 'expires_at must be in the future');
      }
      if (body.accounts) await checkAccounts('accounts', body.accounts, db);
      const created = {
        name: body.name,
        expiresAt,
        createdBy: caller.apiKeyId,
        permissions: body.permissions ?? 'full',
        accountIds: body.accounts ? [...new Set(body.accounts)] : null,
      };
      return request.once(reply, async (tx) => {
        const { apiKey, key } = await createApiKey(tx, created);
        return { ...apiKey, api_key: key };
      });
    },
  );

  app.delete(
    '/api-keys/:id',
    {
      config: { reach: 'installation', isAdministration: true, audit: 'api_key.revoke' },
      schema: {
        tags: ['API keys'],
        operationId: 'revokeAPIKey',
        summary: 'Revoke an API key',
        description:
          'The key stops working immediately. Keys created with it remain valid: list them with `created_by`. The last way to ' +
          'administer the installation stays: 403 for the last key with full access that does not expire, unless an invited admin ' +
          'has a password.',
        params: Type.Object({ id: Id('apiKey') }),
        response: responses('The key is revoked', ApiKeyDeleted, 'not_found'),
      },
    },
    async ({ params }) => {
      existing((await keepWayIn(db, (tx) => deleteApiKey(tx, params.id))) || undefined, 'API key');
      await admissions.forget();
      return { object: 'ApiKeyDeleted', id: params.id };
    },
  );
};
