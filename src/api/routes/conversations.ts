import Type from 'typebox';
import { DateTime, Described, Limit, Offset, OneOf, readOptionalDate } from '../../contract/common.ts';
import { EventType } from '../../contract/events.ts';
import {
  ATTEMPT_OUTCOMES,
  DELIVERY_STATUSES,
  WebhookConversation,
  WebhookConversationDetail,
  WebhookConversationList,
} from '../../contract/webhook.ts';
import {
  type ConversationFilter,
  getConversation,
  getConversationDetail,
  listConversations,
} from '../../db/queries/conversations.ts';
import { visible, visibleAccounts, withoutEndpoint } from '../http/access.ts';
import { responses, existing, Id, type Routes, sendJson } from './route.ts';

const Params = Type.Object({ id: Id('delivery') });

const ConversationQuery = Type.Object({
  endpoint_id: Type.Optional(Type.String({ description: '`we_…`' })),
  event_id: Type.Optional(Type.String({ description: '`evt_…`' })),
  event_type: Type.Optional(Described(EventType, 'deliveries of events of this type')),
  account_id: Type.Optional(Type.String({ description: '`acc_…`' })),
  email_id: Type.Optional(Type.String({ description: '`email_…`: deliveries of events about this email' })),
  status: Type.Optional(OneOf(DELIVERY_STATUSES, { description: 'deliveries with this status' })),
  last_outcome: Type.Optional(
    OneOf(ATTEMPT_OUTCOMES, {
      description: 'deliveries whose last attempt ended like this, whether or not a retry follows',
    }),
  ),
  since: Type.Optional(DateTime('created at or after this time')),
  until: Type.Optional(DateTime('created before this time')),
  offset: Offset,
  limit: Limit(),
});

/** Routes of the delivery log: one record per event and endpoint, stored for 30 days. */
export const conversationRoutes: Routes = (app, { db, commands }) => {
  app.get(
    '/webhooks/conversations',
    {
      config: { reach: 'within' },
      schema: {
        tags: ['Webhooks'],
        operationId: 'listDeliveries',
        summary: 'List deliveries',
        description: 'Returns one record per event and endpoint, stored for 30 days.',
        querystring: ConversationQuery,
        response: responses('Deliveries, newest first', WebhookConversationList),
      },
    },
    async ({ query, caller }) => {
      const filter = { ...toFilter(query), accountIds: visibleAccounts(caller, query.account_id) };
      const { data, hasMore } = await listConversations(db, filter, query);
      return {
        object: 'WebhookConversations',
        data: data.map((delivery) => withoutEndpoint(caller, delivery)),
        has_more: hasMore,
      };
    },
  );

  app.get(
    '/webhooks/conversations/:id',
    {
      config: { reach: 'within' },
      schema: {
        tags: ['Webhooks'],
        operationId: 'getDelivery',
        summary: 'Get a delivery',
        description: 'Returns the delivery with its request body, all attempts, and its workflow in the Temporal UI.',
        params: Params,
        response: responses('The delivery', WebhookConversationDetail, 'not_found'),
      },
    },
    async ({ params, caller }, reply) => {
      existing(visible(caller, await getConversation(db, params.id)), 'delivery');
      const shown = (delivery: WebhookConversation) => withoutEndpoint(caller, delivery);
      return sendJson(reply, existing(await getConversationDetail(db, params.id, shown), 'delivery'));
    },
  );

  app.post(
    '/webhooks/conversations/:id/retry',
    {
      config: { reach: 'within', audit: 'delivery.retry' },
      schema: {
        tags: ['Webhooks'],
        operationId: 'retryDelivery',
        summary: 'Retry a delivery',
        description:
          'Attempts the delivery immediately, regardless of its status, with the same ids and the same bytes. Earlier deliveries ' +
          'of the same object that wait for a retry are attempted first, also immediately. Returns 400 if the endpoint is disabled.',
        params: Params,
        response: responses('The delivery', WebhookConversation, 'not_found'),
      },
    },
    async ({ params, caller }) => {
      existing(visible(caller, await getConversation(db, params.id)), 'delivery');
      await commands.retryDelivery(params.id);
      return withoutEndpoint(caller, existing(await getConversation(db, params.id), 'delivery'));
    },
  );
};

function toFilter(query: Type.Static<typeof ConversationQuery>): ConversationFilter {
  const given = {
    endpointId: query.endpoint_id,
    eventId: query.event_id,
    eventType: query.event_type,
    emailId: query.email_id,
    status: query.status,
    lastOutcome: query.last_outcome,
    since: readOptionalDate(query.since),
    until: readOptionalDate(query.until),
  };
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
}
