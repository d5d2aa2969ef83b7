import Type from 'typebox';
import { ApiKeyCreated, ApiKeyDeleted, ApiKeyList, CreateApiKey } from '../../contract/api-key.ts';
import { Limit, Offset } from '../../contract/common.ts';
import { ApiError } from '../../contract/errors.ts';
import { createApiKey, deleteApiKey, listApiKeys } from '../../db/api-keys.ts';
import { readDate } from '../dates.ts';
import { responses, existing, Id, type Routes } from './route.ts';

export const apiKeyRoutes: Routes = (app, { db }) => {
  app.get(
    '/api-keys',
    {
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
      config: { idempotent: true },
      schema: {
        tags: ['API keys'],
        operationId: 'createAPIKey',
        summary: 'Create an API key',
        description: 'The value is in this response only.',
        body: CreateApiKey,
        response: responses('The key with its value', ApiKeyCreated, 'already_exists'),
      },
    },
    async ({ body, caller }) => {
      const expiresAt = body.expires_at ? readDate(body.expires_at) : null;
      if (expiresAt && expiresAt.getTime() <= Date.now()) {
        throw new ApiError('invalid_parameters', 'expires_at must be in the future');
      }
      const { apiKey, key } = await createApiKey(db, { name: body.name, expiresAt, createdBy: caller.apiKeyId });
      return { ...apiKey, api_key: key };
    },
  );

  app.delete(
    '/api-keys/:id',
    {
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
      return { object: 'ApiKeyDeleted', id: params.id };
    },
  );
};
