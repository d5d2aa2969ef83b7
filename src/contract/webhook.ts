import Type from 'typebox';
import { DateTime, ListOf, Nullable, OneOf } from './common.ts';
import { Header } from './email.ts';
import { EventType } from './events.ts';

/** States of the circuit breaker of an endpoint; see `breaker` of WebhookEndpoint. */
export const BREAKER_STATES = ['closed', 'open', 'half_open'] as const;
export type BreakerState = (typeof BREAKER_STATES)[number];

/** An endpoint is disabled after failing for this long, ms. */
export const DISABLED_AFTER_MS = 5 * 24 * 60 * 60 * 1000;

export const WebhookEndpoint = Type.Object(
  {
    object: Type.Literal('WebhookEndpoint'),
    id: Type.String(),
    url: Type.String(),
    description: Nullable(Type.String({ description: 'null: none' })),
    enabled: Type.Boolean(),
    disabled_reason: Nullable(
      Type.String({
        description:
          '`gone`: it responded with 410; `failing`: no call succeeded for 5 days; `secret_unreadable`: its secret or headers ' +
          'were encrypted with a key that is no longer configured, see rotate-secret; null: enabled, or disabled by a call',
      }),
    ),
    failing_since: Nullable(DateTime('first failed call since the last successful one; null: the last call succeeded')),
    disables_at: Nullable(
      DateTime('when the endpoint is disabled unless a call succeeds; null: more than 2 days away'),
    ),
    breaker: Type.Object(
      {
        state: OneOf(BREAKER_STATES),
        until: Nullable(DateTime('when the next call is made; null: not `open`')),
      },
      {
        description:
          '`open`: calls failed, and events wait until `until`; `half_open`: a single call tests whether the endpoint has recovered',
      },
    ),
    trigger_events: Type.Array(Type.String()),
    account_ids: Type.Array(Type.String(), { description: 'empty: all accounts' }),
    headers: Type.Array(Header, { description: 'keys with the permission `read` see empty values' }),
    secret: Type.String({
      description: '`whsec_` and base64 of 32 random bytes; empty for keys with the permission `read`',
    }),
    created_at: DateTime(),
    updated_at: DateTime(),
  },
  { $id: 'WebhookEndpoint' },
);
export type WebhookEndpoint = Type.Static<typeof WebhookEndpoint>;

const endpointFields = {
  url: Type.String({ minLength: 1, maxLength: 2048 }),
  description: Nullable(Type.String({ maxLength: 255, description: 'null: none' })),
  enabled: Type.Boolean(),
  trigger_events: Type.Array(EventType, { minItems: 1 }),
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
    type: EventType,
    account_id: Type.Optional(
      Type.String({
        description: '`acc_…` in the event; default: the first account of the endpoint, or of the installation',
      }),
    ),
  },
  { $id: 'TestWebhookEndpoint' },
);
export type TestWebhookEndpoint = Type.Static<typeof TestWebhookEndpoint>;

export const DELIVERY_STATUSES = ['pending', 'delivered', 'failed', 'skipped'] as const;
export type DeliveryStatus = (typeof DELIVERY_STATUSES)[number];

/** How the last attempt of a delivery ended. */
export const ATTEMPT_OUTCOMES = ['succeeded', 'failed'] as const;
export type AttemptOutcome = (typeof ATTEMPT_OUTCOMES)[number];

/** Stages at which a call can fail. */
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
        'stage at which the call failed: name resolution (`dns`), an address that is not allowed (`address`), `connect`, ' +
        '`tls`, `timeout`, the HTTP `status`, a response that is `too_large` apart from its body, a `response` that is not HTTP, the stored ' +
        '`secret`; null: it succeeded, or no call was made',
    }),
  ),
};

/** Why a pending delivery is not being attempted. */
export const WAIT_REASONS = ['breaker', 'order', 'retry', 'replay', 'due'] as const;
export type WaitReason = (typeof WAIT_REASONS)[number];

/** What a pending delivery waits for. */
export const WaitingFor = Type.Object(
  {
    reason: OneOf(WAIT_REASONS, {
      description:
        '`breaker`: calls to its endpoint fail, and it gets single probes only; `order`: an earlier event of the same object ' +
        'comes first; `retry`: its next attempt has a time; `replay`: a replay made it, and live events go first; `due`: it ' +
        'is next, or being attempted',
    }),
    until: Nullable(DateTime('earliest time of the next attempt, in the future; null: not known')),
    behind: Nullable(Type.String({ description: '`whc_…`: the earlier delivery that goes first; null: none' })),
  },
  { $id: 'WaitingFor' },
);
export type WaitingFor = Type.Static<typeof WaitingFor>;

/** The email of a delivery, as far as a list shows it. */
export const DeliveredEmail = Type.Object(
  {
    id: Type.String({ description: '`email_…`' }),
    subject: Nullable(Type.String({ description: 'null: it is no longer stored' })),
    from: Nullable(Type.String({ description: 'name of the sender, or the address; null: it is no longer stored' })),
  },
  { $id: 'DeliveredEmail' },
);
export type DeliveredEmail = Type.Static<typeof DeliveredEmail>;

const conversationFields = {
  object: Type.Literal('WebhookConversation'),
  id: Type.String({ description: '`whc_…`' }),
  endpoint_id: Type.String(),
  event_id: Type.String(),
  event_type: Type.String(),
  account_id: Type.String(),
  account_name: Nullable(Type.String({ description: 'null: the account was removed' })),
  email: Nullable(DeliveredEmail, 'the email that its event is about; null: it is about no email, or is a test event'),
  endpoint_url: Type.String({ description: 'empty for API keys that are limited to some accounts' }),
  endpoint_name: Nullable(
    Type.String({
      description: 'description of the endpoint; null: none, or the API key is limited to some accounts',
    }),
  ),
  status: OneOf(DELIVERY_STATUSES),
  first_attempt: Type.Boolean({ description: 'true until the second attempt' }),
  attempts_count: Type.Integer({ description: 'attempts made so far' }),
  http_status: Nullable(Type.Integer({ description: 'of the last attempt; null: no response' })),
  response_body: Nullable(Type.String({ description: 'of the last attempt, at most 16 KiB; null: no response' })),
  error: Nullable(Type.String({ description: 'of the last attempt; null: it succeeded' })),
  ...errorKind,
  created_at: DateTime(),
  last_attempt_at: Nullable(DateTime('null: not attempted yet')),
  next_attempt_at: Nullable(DateTime('in the future; null: none has a time, see `waiting_for`')),
  waiting_for: Nullable(WaitingFor, 'null: it is not pending'),
  test: Type.Boolean({ description: 'true: a test event' }),
};

export const DeliveryAttempt = Type.Object(
  {
    number: Type.Integer({ description: 'counts from 1' }),
    at: DateTime(),
    http_status: Nullable(Type.Integer({ description: 'null: no response' })),
    response_body: Nullable(Type.String({ description: 'at most 16 KiB; null: no response' })),
    error: Nullable(Type.String({ description: 'null: the attempt succeeded' })),
    ...errorKind,
    duration_ms: Type.Integer({ description: 'milliseconds' }),
  },
  { $id: 'DeliveryAttempt' },
);
export type DeliveryAttempt = Type.Static<typeof DeliveryAttempt>;

/** One record of the delivery log: one event for one endpoint. */
export const WebhookConversation = Type.Object(conversationFields, { $id: 'WebhookConversation' });
export type WebhookConversation = Type.Static<typeof WebhookConversation>;

export const WebhookConversationDetail = Type.Object(
  {
    ...conversationFields,
    payload: Type.Unsafe<Record<string, unknown>>({ type: 'object', description: 'the request body' }),
    workflow_id: Nullable(Type.String({ description: 'the workflow in the Temporal UI; null: none was started' })),
    attempts: Type.Array(DeliveryAttempt),
  },
  { $id: 'WebhookConversationDetail' },
);
export type WebhookConversationDetail = Type.Static<typeof WebhookConversationDetail>;

export const WebhookConversationList = ListOf('WebhookConversations', WebhookConversation);

const RESERVED =
  /^(host|connection|keep-alive|proxy-.*|te|trailer|upgrade|expect|transfer-encoding|content-.*|x-email-engine-.*|webhook-.*)$/i;

/** Whether a header belongs to the connection or to this service, and endpoints may therefore not set it. */
export function isReservedHeader(name: string): boolean {
  return RESERVED.test(name);
}
