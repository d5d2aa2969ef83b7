import { randomBytes } from 'node:crypto';
import Type from 'typebox';
import { Limit, Offset } from '../../contract/common.ts';
import { ApiError } from '../../contract/errors.ts';
import { SAMPLE_ACCOUNT_ID, sampleData } from '../../contract/sample-events.ts';
import {
  CreateWebhookEndpoint,
  TestWebhookEndpoint,
  UpdateWebhookEndpoint,
  WebhookConversation,
  WebhookEndpoint,
  WebhookEndpointDeleted,
  WebhookEndpointList,
} from '../../contract/webhook.ts';
import type { Caller } from '../../db/access/api-keys.ts';
import { withoutLogin } from '../http/access.ts';
import { firstAccountId, knownAccountIds } from '../../db/queries/accounts.ts';
import {
  createEndpoint,
  deleteEndpoint,
  getEndpoint,
  listEndpoints,
  renewsEndpoint,
  rotateSecret,
  updateEndpoint,
} from '../../db/queries/endpoints.ts';
import { getConversation } from '../../db/queries/conversations.ts';
import { recordTestEvent } from '../../db/outbox.ts';
import { checkEndpoint } from '../endpoint-rules.ts';
import { responses, existing, Id, type Routes } from './route.ts';

const Params = Type.Object({ id: Id('endpoint') });
const SECRET_BYTES = 32;

/** Routes that manage webhook endpoints. */
export const endpointRoutes: Routes = (app, deps) => {
  const { db, secrets, commands } = deps;

  app.get(
    '/webhooks/endpoints',
    {
      config: { reach: 'installation' },
      schema: {
        tags: ['Webhooks'],
        operationId: 'listWebhookEndpoints',
        summary: 'List webhook endpoints',
        description: 'Returns all endpoints, including disabled ones.',
        querystring: Type.Object({ offset: Offset, limit: Limit() }),
        response: responses('Endpoints, oldest first', WebhookEndpointList),
      },
    },
    async ({ query, caller }) => {
      const { data, hasMore } = await listEndpoints(db, secrets, query);
      return { object: 'WebhookEndpoints', data: data.map((one) => shownTo(caller, one)), has_more: hasMore };
    },
  );

  app.post(
    '/webhooks/endpoints',
    {
      config: { reach: 'installation', idempotent: true, audit: 'webhook_endpoint.create' },
      schema: {
        tags: ['Webhooks'],
        operationId: 'createWebhookEndpoint',
        summary: 'Create a webhook endpoint',
        description: 'The endpoint receives events of the given types, from the given accounts or from all.',
        body: CreateWebhookEndpoint,
        response: responses('The endpoint, with the secret that signs its calls', WebhookEndpoint, 'already_exists'),
      },
    },
    async (request, reply) => {
      const { body } = request;
      await checkEndpoint(body, deps);
      const endpoint = {
        url: body.url,
        description: body.description ?? null,
        enabled: body.enabled ?? true,
        triggerEvents: [...new Set(body.trigger_events)],
        accountIds: [...new Set(body.account_ids)],
        headers: body.headers ?? [],
        secret: newSecret(),
      };
      return request.once(reply, (tx) => createEndpoint(tx, secrets, endpoint));
    },
  );

  app.get(
    '/webhooks/endpoints/:id',
    {
      config: { reach: 'installation' },
      schema: {
        tags: ['Webhooks'],
        operationId: 'getWebhookEndpoint',
        summary: 'Get a webhook endpoint',
        description: 'Returns the endpoint with its secret and the state of its circuit breaker.',
        params: Params,
        response: responses('The endpoint', WebhookEndpoint, 'not_found'),
      },
    },
    async ({ params, caller }) => shownTo(caller, existing(await getEndpoint(db, secrets, params.id), 'endpoint')),
  );

  app.patch(
    '/webhooks/endpoints/:id',
    {
      config: { reach: 'installation', audit: 'webhook_endpoint.update' },
      schema: {
        tags: ['Webhooks'],
        operationId: 'updateWebhookEndpoint',
        summary: 'Update a webhook endpoint',
        description:
          'Omitted fields do not change. Enabling an endpoint clears `disabled_reason` and `failing_since`, and closes its ' +
          '`breaker`; a new `url` clears `failing_since` and closes the `breaker`. In both cases waiting deliveries are ' +
          'attempted immediately. `account_ids` may keep ids of accounts that were removed.',
        params: Params,
        body: UpdateWebhookEndpoint,
        response: responses('The endpoint', WebhookEndpoint, 'not_found'),
      },
    },
    async ({ params, body }) => {
      const stored = existing(await getEndpoint(db, secrets, params.id), 'endpoint');
      await checkEndpoint(body, deps, stored);
      const updated = existing(await updateEndpoint(db, secrets, params.id, body), 'endpoint');
      if (renewsEndpoint(body)) await commands.attemptWaiting(params.id);
      return updated;
    },
  );

  app.delete(
    '/webhooks/endpoints/:id',
    {
      config: { reach: 'installation', audit: 'webhook_endpoint.delete' },
      schema: {
        tags: ['Webhooks'],
        operationId: 'deleteWebhookEndpoint',
        summary: 'Delete a webhook endpoint',
        description: 'Stops deliveries to the endpoint. Its records remain in the delivery log.',
        params: Params,
        response: responses('The endpoint is deleted', WebhookEndpointDeleted, 'not_found'),
      },
    },
    async ({ params }) => {
      existing((await deleteEndpoint(db, params.id)) || undefined, 'endpoint');
      return { object: 'WebhookEndpointDeleted', id: params.id, success: true };
    },
  );

  app.post(
    '/webhooks/endpoints/:id/rotate-secret',
    {
      config: { reach: 'installation', idempotent: true, audit: 'webhook_endpoint.rotate_secret' },
      schema: {
        tags: ['Webhooks'],
        operationId: 'rotateWebhookSecret',
        summary: 'Replace the secret of a webhook endpoint',
        description:
          'Creates a new secret. From the next call on, `X-Email-Engine-Signature` uses only the new secret; for 24 h, ' +
          '`webhook-signature` carries signatures of both the new and the previous secret. Replacing the secret again ' +
          'within that time invalidates the older one immediately.',
        params: Params,
        response: responses('The endpoint, with its new secret', WebhookEndpoint, 'not_found', 'already_exists'),
      },
    },
    async (request, reply) => {
      const rotation = { secret: newSecret(), now: new Date() };
      return request.once(reply, async (tx) =>
        existing(await rotateSecret(tx, secrets, request.params.id, rotation), 'endpoint'),
      );
    },
  );

  app.post(
    '/webhooks/endpoints/:id/test',
    {
      config: { reach: 'installation', idempotent: true, audit: 'webhook_endpoint.test' },
      schema: {
        tags: ['Webhooks'],
        operationId: 'testWebhookEndpoint',
        summary: 'Send a test event to a webhook endpoint',
        description:
          'Delivers a sample event of the type to this endpoint only, regardless of its `trigger_events`. The event is ' +
          'signed, retried and logged like any other; it has `test: true` and `sequence` 0, and does not appear in the ' +
          'event feed. Returns 400 if the endpoint is disabled.',
        params: Params,
        body: TestWebhookEndpoint,
        response: responses('The delivery, as in the delivery log', WebhookConversation, 'not_found', 'already_exists'),
      },
    },
    async (request, reply) => {
      const { params, body } = request;
      const endpoint = existing(await getEndpoint(db, secrets, params.id), 'endpoint');
      if (!endpoint.enabled) throw new ApiError('invalid_parameters', 'the endpoint is disabled: enable it first');
      const given = body.account_id;
      if (given !== undefined && !(await knownAccountIds(db, [given])).has(given)) {
        throw new ApiError('invalid_parameters', 'account_id is not the id of an account');
      }
      const accountId = given ?? endpoint.account_ids[0] ?? (await firstAccountId(db)) ?? SAMPLE_ACCOUNT_ID;
      const data = sampleData(body.type, accountId, new Date());
      return request.once(reply, async (tx) => {
        const id = await recordTestEvent(tx, { endpoint, accountId, type: body.type, data });
        return existing(await getConversation(tx, id), 'delivery');
      });
    },
  );
};

/** Blanks what signs or authenticates calls for read-only keys. */
function shownTo(caller: Caller, endpoint: WebhookEndpoint): WebhookEndpoint {
  if (caller.permissions !== 'read') return endpoint;
  const headers = endpoint.headers.map(({ name }) => ({ name, value: '' }));
  return { ...endpoint, url: withoutLogin(caller, endpoint.url), secret: '', headers };
}

function newSecret(): string {
  return `whsec_${randomBytes(SECRET_BYTES).toString('base64')}`;
}
