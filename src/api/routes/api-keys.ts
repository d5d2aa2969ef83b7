import Type from 'typebox';
import { ApiKeyCreated, ApiKeyDeleted, ApiKeyList, CreateApiKey } from '../../contract/api-key.ts';
import { Limit, Offset } from '../../contract/common.ts';
import { ApiError } from '../../contract/errors.ts';
import { createApiKey, deleteApiKey, listApiKeys } from '../../db/access/api-keys.ts';
import { readDate } from '../http/dates.ts';
import { checkAccounts } from '../endpoint-rules.ts';
import { responses, existing, Id, type Routes } from './route.ts';

export const apiKeyRoutes: Routes = (app, { db, admissions }) => {
  app.get(
    '/api-keys',
    {
      config: { reach: 'installation' },
      schema: {
        tags: ['API keys'],
        operationId: 'listAPIKeys',
        summary: 'List API keys',
        querystring: Type.Object({
          offset: Offset,
          limit: Limit(),
          created_by: Type.Optional(
            Type.String({ description: '`pk_…`: keys that this one created, also when it is revoked' }),
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
      config: { reach: 'installation', idempotent: true, audit: 'api_key.create' },
      schema: {
        tags: ['API keys'],
        operationId: 'createAPIKey',
        summary: 'Create an API key',
        description:
          'The value is in this response only. With `permissions: "read"` a key changes nothing. One with `accounts` sees and ' +
          'changes these alone: there are no others for it, and what is about the whole installation (keys, endpoints, ' +
          'replays, the audit log, connecting a further mailbox) is 403. A limited key creates no keys.',
        body: CreateApiKey,
        response: responses('The key with its value', ApiKeyCreated, 'already_exists'),
      },
    },
    async ({ body, caller }) => {
      const expiresAt = body.expires_at ? readDate(body.expires_at) : null;
      if (expiresAt && expiresAt.getTime() <= Date.now()) {
        throw new ApiError('invalid_parameters', 'expires_at must be in the future');
      }
      if (body.accounts) await checkAccounts('accounts', body.accounts, db);
      const { apiKey, key } = await createApiKey(db, {
        name: body.name,
        expiresAt,
        createdBy: caller.apiKeyId,
        permissions: body.permissions ?? 'full',
        accountIds: body.accounts ? [...new Set(body.accounts)] : null,
      });
      return { ...apiKey, api_key: key };
    },
  );

  app.delete(
    '/api-keys/:id',
    {
      config: { reach: 'installation', audit: 'api_key.revoke' },
      schema: {
        tags: ['API keys'],
        operationId: 'revokeAPIKey',
        summary: 'Revoke an API key',
        description:
          'It stops working at once, everywhere. Keys that it created go on: `created_by` of the list finds them.',
        params: Type.Object({ id: Id('apiKey') }),
        response: responses('It is revoked', ApiKeyDeleted, 'not_found'),
      },
    },
    async ({ params }) => {
      existing((await deleteApiKey(db, params.id)) || undefined, 'API key');
      await admissions.forget();
      return { object: 'ApiKeyDeleted', id: params.id };
    },
  );
};
