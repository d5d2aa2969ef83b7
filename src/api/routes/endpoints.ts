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

/** Webhook endpoints (CONTRACT "Webhooks"). */
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
        description: 'An endpoint is called for events of the given types, of the given accounts or of all.',
        body: CreateWebhookEndpoint,
        response: responses('The endpoint, with the secret that signs its calls', WebhookEndpoint, 'already_exists'),
      },
    },
    async ({ body }) => {
      await checkEndpoint(body, deps);
      return createEndpoint(db, secrets, {
        url: body.url,
        description: body.description ?? null,
        enabled: body.enabled ?? true,
        triggerEvents: [...new Set(body.trigger_events)],
        accountIds: [...new Set(body.account_ids)],
        headers: body.headers ?? [],
        secret: newSecret(),
      });
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
          'Fields that are left out stay as they are. Enabling an endpoint clears its `disabled_reason` and `failing_since`, ' +
          'and closes its `breaker`; another `url` does so too, without `disabled_reason`. What waits for its next attempt ' +
          'is attempted at once.',
        params: Params,
        body: UpdateWebhookEndpoint,
        response: responses('The endpoint', WebhookEndpoint, 'not_found'),
      },
    },
    async ({ params, body }) => {
      existing(await getEndpoint(db, secrets, params.id), 'endpoint');
      await checkEndpoint(body, deps);
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
        description: 'Its records in the delivery log stay.',
        params: Params,
        response: responses('It is deleted', WebhookEndpointDeleted, 'not_found'),
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
          'Makes a new secret. From the next call on `X-Email-Engine-Signature` is made with the new secret alone; ' +
          '`webhook-signature` carries a signature of the new one and one of the replaced secret for 24 h. Replacing the ' +
          'secret again within that time ends the one before the last at once.',
        params: Params,
        response: responses('The endpoint, with its new secret', WebhookEndpoint, 'not_found', 'already_exists'),
      },
    },
    async ({ params }) => {
      const rotated = await rotateSecret(db, secrets, params.id, { secret: newSecret(), now: new Date() });
      return existing(rotated, 'endpoint');
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
          'Delivers a sample event of the type to this endpoint alone, whatever its `trigger_events`, on the way that ' +
          'every event takes: signed, retried and in the delivery log, where `test` is true. The event has `test: true` ' +
          'and `sequence` 0, and is in no list of events. An endpoint that is disabled is 400.',
        params: Params,
        body: TestWebhookEndpoint,
        response: responses('The delivery: follow it in the log', WebhookConversation, 'not_found', 'already_exists'),
      },
    },
    async ({ params, body }) => {
      const endpoint = existing(await getEndpoint(db, secrets, params.id), 'endpoint');
      if (!endpoint.enabled) throw new ApiError('invalid_parameters', 'the endpoint is disabled: enable it first');
      const given = body.account_id;
      if (given !== undefined && !(await knownAccountIds(db, [given])).has(given)) {
        throw new ApiError('invalid_parameters', 'account_id is not the id of an account');
      }
      const accountId = given ?? endpoint.account_ids[0] ?? (await firstAccountId(db)) ?? SAMPLE_ACCOUNT_ID;
      const data = sampleData(body.type, accountId, new Date());
      const id = await db.transaction((tx) => recordTestEvent(tx, { endpoint, accountId, type: body.type, data }));
      return existing(await getConversation(db, id), 'delivery');
    },
  );
};

/** Who may only read cannot sign calls either, nor call the endpoint with the credentials in its headers. */
function shownTo({ permissions }: Caller, endpoint: WebhookEndpoint): WebhookEndpoint {
  if (permissions === 'full') return endpoint;
  return { ...endpoint, secret: '', headers: endpoint.headers.map(({ name }) => ({ name, value: '' })) };
}

function newSecret(): string {
  return `whsec_${randomBytes(SECRET_BYTES).toString('base64')}`;
}
