import Type from 'typebox';
import { DateTime, ListOf, Nullable, OneOf } from './common.ts';
import { Header } from './email.ts';
import { EVENT_TYPES } from './events.ts';

/** How an endpoint that fails is spared; see `breaker` of WebhookEndpoint. */
export const BREAKER_STATES = ['closed', 'open', 'half_open'] as const;
export type BreakerState = (typeof BREAKER_STATES)[number];

/** An endpoint that has failed for so long is disabled. */
export const DISABLED_AFTER_MS = 5 * 24 * 60 * 60 * 1000;

export const WebhookEndpoint = Type.Object(
  {
    object: Type.Literal('WebhookEndpoint'),
    id: Type.String(),
    url: Type.String(),
    description: Nullable(Type.String()),
    enabled: Type.Boolean(),
    disabled_reason: Nullable(
      Type.String({
        description:
          '`gone`: it answered 410; `failing`: no call succeeded for 5 days; `secret_unreadable`: its secret or headers were sealed with a key that is not set any more, see rotate-secret',
      }),
    ),
    failing_since: Nullable(DateTime('first failed call since the last one that succeeded')),
    disables_at: Nullable(DateTime('when it will be disabled if no call succeeds until then; from 2 days before on')),
    breaker: Type.Object(
      {
        state: OneOf(BREAKER_STATES),
        until: Nullable(DateTime('when the next call is made')),
      },
      {
        description:
          '`open`: it fails, so events wait and no call is made until `until`; `half_open`: one call finds out whether it ' +
          'is back',
      },
    ),
    trigger_events: Type.Array(Type.String()),
    account_ids: Type.Array(Type.String(), { description: 'empty: all accounts' }),
    headers: Type.Array(Header, { description: 'for a key with the permissions `read`: without their values' }),
    secret: Type.String({
      description: '`whsec_` and base64 of 32 random bytes; empty for a key with the permissions `read`',
    }),
    created_at: DateTime(),
    updated_at: DateTime(),
  },
  { $id: 'WebhookEndpoint' },
);
export type WebhookEndpoint = Type.Static<typeof WebhookEndpoint>;

const endpointFields = {
  url: Type.String({ minLength: 1, maxLength: 2048 }),
  description: Nullable(Type.String({ maxLength: 255 })),
  enabled: Type.Boolean(),
  trigger_events: Type.Array(OneOf(EVENT_TYPES), { minItems: 1 }),
  account_ids: Type.Array(Type.String()),
  headers: Type.Array(Header, { maxItems: 20 }),
};

export const CreateWebhookEndpoint = Type.Object(
  {
    url: endpointFields.url,
    trigger_events: endpointFields.trigger_events,
    description: Type.Optional(endpointFields.description),
    enabled: Type.Optional(endpointFields.enabled),
    account_ids: Type.Optional(endpointFields.account_ids),
    headers: Type.Optional(endpointFields.headers),
  },
  { $id: 'CreateWebhookEndpoint' },
);
export type CreateWebhookEndpoint = Type.Static<typeof CreateWebhookEndpoint>;

export const UpdateWebhookEndpoint = Type.Partial(Type.Object(endpointFields), { $id: 'UpdateWebhookEndpoint' });
export type UpdateWebhookEndpoint = Type.Static<typeof UpdateWebhookEndpoint>;

export const WebhookEndpointList = ListOf('WebhookEndpoints', WebhookEndpoint);
export const WebhookEndpointDeleted = Type.Object(
  { object: Type.Literal('WebhookEndpointDeleted'), id: Type.String(), success: Type.Literal(true) },
  { $id: 'WebhookEndpointDeleted' },
);

export const TestWebhookEndpoint = Type.Object(
  {
    type: OneOf(EVENT_TYPES),
    account_id: Type.Optional(
      Type.String({ description: '`acc_…` in the event; left out: the first account of the endpoint, or of all' }),
    ),
  },
  { $id: 'TestWebhookEndpoint' },
);
export type TestWebhookEndpoint = Type.Static<typeof TestWebhookEndpoint>;

export const DELIVERY_STATUSES = ['pending', 'delivered', 'failed', 'skipped'] as const;
export type DeliveryStatus = (typeof DELIVERY_STATUSES)[number];

/** Where a call failed. */
export const POST_ERROR_KINDS = [
  'dns',
  'address',
  'connect',
  'tls',
  'timeout',
  'status',
  'too_large',
  'response',
  'secret',
  'other',
] as const;
export type PostErrorKind = (typeof POST_ERROR_KINDS)[number];
const errorKind = {
  error_kind: Nullable(
    OneOf(POST_ERROR_KINDS, {
      description:
        'where the call failed: the name (`dns`), an address that may not be called (`address`), `connect`, `tls`, `timeout`, the status of the response, its headers (`too_large`), a response that is not HTTP, the stored secret',
    }),
  ),
};

const conversationFields = {
  object: Type.Literal('WebhookConversation'),
  id: Type.String({ description: '`whc_…`' }),
  endpoint_id: Type.String(),
  event_id: Type.String(),
  event_type: Type.String(),
  account_id: Type.String(),
  endpoint_url: Type.String({ description: '`""` for an API key that is limited to some accounts' }),
  status: OneOf(DELIVERY_STATUSES),
  first_attempt: Type.Boolean({ description: 'true until a second attempt is made' }),
  attempts_count: Type.Integer(),
  http_status: Nullable(Type.Integer()),
  response_body: Nullable(Type.String({ description: 'at most 16 KiB' })),
  error: Nullable(Type.String()),
  ...errorKind,
  created_at: DateTime(),
  last_attempt_at: Nullable(DateTime()),
  next_attempt_at: Nullable(DateTime()),
  test: Type.Boolean({ description: 'a test event' }),
};

export const DeliveryAttempt = Type.Object(
  {
    number: Type.Integer(),
    at: DateTime(),
    http_status: Nullable(Type.Integer()),
    response_body: Nullable(Type.String()),
    error: Nullable(Type.String()),
    ...errorKind,
    duration_ms: Type.Integer(),
  },
  { $id: 'DeliveryAttempt' },
);
export type DeliveryAttempt = Type.Static<typeof DeliveryAttempt>;

/** One record of the delivery log: one event to one endpoint. */
export const WebhookConversation = Type.Object(conversationFields, { $id: 'WebhookConversation' });
export type WebhookConversation = Type.Static<typeof WebhookConversation>;

export const WebhookConversationDetail = Type.Object(
  {
    ...conversationFields,
    payload: Type.Unsafe<Record<string, unknown>>({ type: 'object', description: 'the request body' }),
    workflow_id: Nullable(Type.String({ description: 'the workflow to open in the Temporal UI' })),
    attempts: Type.Array(DeliveryAttempt),
  },
  { $id: 'WebhookConversationDetail' },
);
export type WebhookConversationDetail = Type.Static<typeof WebhookConversationDetail>;

export const WebhookConversationList = ListOf('WebhookConversations', WebhookConversation);

const RESERVED =
  /^(host|connection|keep-alive|proxy-.*|te|trailer|upgrade|expect|transfer-encoding|content-.*|x-email-engine-.*|webhook-.*)$/i;

/** Whether a header belongs to the connection or to this service: an endpoint may not set its own. */
export function isReservedHeader(name: string): boolean {
  return RESERVED.test(name);
}
