import Type from 'typebox';
import { CreatedAt, DateTime, IdOf, ListOf, Nullable, ObjectName, OneOf, Success, UpdatedAt } from './common.ts';
import { Header } from './email.ts';
import { EventType } from './events.ts';

/** States of the circuit breaker of an endpoint; see `breaker` of WebhookEndpoint. */
export const BREAKER_STATES = ['closed', 'open', 'half_open'] as const;
export type BreakerState = (typeof BREAKER_STATES)[number];

/** An endpoint is disabled after failing for this long, ms. */
export const DISABLED_AFTER_MS = 5 * 24 * 60 * 60 * 1000;

const CALLED = '`http` or `https` URL that receives a POST for each event';
const ENABLED = 'false: it gets no calls, and its deliveries are `skipped`';
const TRIGGERS = 'types of the events that it receives';
const OF_ACCOUNTS = '`acc_…` of the accounts whose events it receives; empty: all';

export const WebhookEndpoint = Type.Object(
  {
    object: ObjectName('WebhookEndpoint'),
    id: IdOf('endpoint'),
    url: Type.String({ description: `${CALLED}; without its user and password for API keys that only read` }),
    description: Nullable(Type.String({ description: 'your note; null: none' })),
    enabled: Type.Boolean({ description: ENABLED }),
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
        state: OneOf(BREAKER_STATES, { description: '`closed`: calls are made' }),
        until: Nullable(DateTime('when the next call is made; null: not `open`')),
      },
      {
        description:
          '`open`: calls failed, and events wait until `until`; `half_open`: a single call tests whether the endpoint has recovered',
      },
    ),
    trigger_events: Type.Array(Type.String(), { description: TRIGGERS }),
    account_ids: Type.Array(Type.String(), { description: OF_ACCOUNTS }),
    headers: Type.Array(Header, { description: 'keys with the permission `read` see empty values' }),
    secret: Type.String({
      description: '`whsec_` and base64 of 32 random bytes; empty for keys with the permission `read`',
    }),
    created_at: CreatedAt,
    updated_at: UpdatedAt,
  },
  { $id: 'WebhookEndpoint', description: 'a URL of yours that receives events' },
);
export type WebhookEndpoint = Type.Static<typeof WebhookEndpoint>;

const endpointFields = {
  url: Type.String({ minLength: 1, maxLength: 2048, description: CALLED }),
  description: Nullable(Type.String({ maxLength: 255, description: 'your note; null: none' })),
  enabled: Type.Boolean({ description: ENABLED }),
  trigger_events: Type.Array(EventType, { minItems: 1, description: TRIGGERS }),
  account_ids: Type.Array(Type.String(), { description: OF_ACCOUNTS }),
  headers: Type.Array(Header, {
    maxItems: 20,
    description: 'headers of its calls, such as one that authenticates them',
  }),
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
  { $id: 'CreateWebhookEndpoint', description: 'an endpoint to create' },
);
export type CreateWebhookEndpoint = Type.Static<typeof CreateWebhookEndpoint>;

export const UpdateWebhookEndpoint = Type.Partial(Type.Object(endpointFields), {
  $id: 'UpdateWebhookEndpoint',
  description: 'changes of an endpoint; omitted fields do not change',
});
export type UpdateWebhookEndpoint = Type.Static<typeof UpdateWebhookEndpoint>;

export const WebhookEndpointList = ListOf('WebhookEndpoints', WebhookEndpoint);
export const WebhookEndpointDeleted = Type.Object(
  { object: ObjectName('WebhookEndpointDeleted'), id: IdOf('endpoint'), success: Success },
  { $id: 'WebhookEndpointDeleted', description: 'the endpoint was deleted' },
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
  { $id: 'TestWebhookEndpoint', description: 'a test event to send' },
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
  { $id: 'WaitingFor', description: 'what a pending delivery waits for' },
);
export type WaitingFor = Type.Static<typeof WaitingFor>;

/** The email of a delivery, as far as a list shows it. */
export const DeliveredEmail = Type.Object(
  {
    id: Type.String({ description: '`email_…`' }),
    subject: Nullable(Type.String({ description: 'null: it is no longer stored' })),
    from: Nullable(Type.String({ description: 'name of the sender, or the address; null: it is no longer stored' })),
  },
  { $id: 'DeliveredEmail', description: 'the email of a delivery, as far as a list shows it' },
);
export type DeliveredEmail = Type.Static<typeof DeliveredEmail>;

const conversationFields = {
  object: ObjectName('WebhookConversation'),
  id: Type.String({ description: '`whc_…`' }),
  endpoint_id: IdOf('endpoint'),
  event_id: IdOf('event'),
  event_type: Type.String({ description: 'an EventType' }),
  account_id: IdOf('account'),
  account_name: Nullable(Type.String({ description: 'name of the account; null: it was removed' })),
  email: Nullable(DeliveredEmail, 'the email that its event is about; null: it is about no email, or is a test event'),
  endpoint_url: Type.String({
    description:
      'empty for API keys that are limited to some accounts; without user and password for those that only read',
  }),
  endpoint_name: Nullable(
    Type.String({
      description: 'description of the endpoint; null: none, or the API key is limited to some accounts',
    }),
  ),
  status: OneOf(DELIVERY_STATUSES, {
    description:
      '`pending`: queued, or a retry follows; `delivered`: the endpoint accepted it; `failed`: no retry is left; `skipped`: the ' +
      'endpoint was disabled or deleted',
  }),
  first_attempt: Type.Boolean({ description: 'true until the second attempt' }),
  attempts_count: Type.Integer({ description: 'attempts made so far' }),
  http_status: Nullable(Type.Integer({ description: 'of the last attempt; null: no response' })),
  response_body: Nullable(Type.String({ description: 'of the last attempt, at most 16 KiB; null: no response' })),
  error: Nullable(Type.String({ description: 'of the last attempt; null: it succeeded' })),
  ...errorKind,
  created_at: CreatedAt,
  last_attempt_at: Nullable(DateTime('when the last attempt was made; null: not attempted yet')),
  next_attempt_at: Nullable(
    DateTime('when it is attempted next, in the future; null: none has a time, see `waiting_for`'),
  ),
  waiting_for: Nullable(WaitingFor, 'null: it is not pending'),
  test: Type.Boolean({ description: 'true: a test event' }),
};

export const DeliveryAttempt = Type.Object(
  {
    number: Type.Integer({ description: 'counts from 1' }),
    at: DateTime('when it was made'),
    http_status: Nullable(Type.Integer({ description: 'of the response; null: no response' })),
    response_body: Nullable(Type.String({ description: 'at most 16 KiB; null: no response' })),
    error: Nullable(Type.String({ description: 'why it failed, for people; null: the attempt succeeded' })),
    ...errorKind,
    duration_ms: Type.Integer({ description: 'milliseconds' }),
  },
  { $id: 'DeliveryAttempt', description: 'one call to an endpoint' },
);
export type DeliveryAttempt = Type.Static<typeof DeliveryAttempt>;

/** One record of the delivery log: one event for one endpoint. */
export const WebhookConversation = Type.Object(conversationFields, {
  $id: 'WebhookConversation',
  description: 'a delivery: one event for one endpoint',
});
export type WebhookConversation = Type.Static<typeof WebhookConversation>;

export const WebhookConversationDetail = Type.Object(
  {
    ...conversationFields,
    payload: Type.Unsafe<Record<string, unknown>>({
      type: 'object',
      description: 'the request body; `data` is empty once its content was erased',
    }),
    workflow_id: Nullable(Type.String({ description: 'the workflow in the Temporal UI; null: none was started' })),
    attempts: Type.Array(DeliveryAttempt, { description: 'its attempts, the first one first' }),
  },
  { $id: 'WebhookConversationDetail', description: 'a delivery with its request and its attempts' },
);
export type WebhookConversationDetail = Type.Static<typeof WebhookConversationDetail>;

export const WebhookConversationList = ListOf('WebhookConversations', WebhookConversation);

const RESERVED =
  /^(host|connection|keep-alive|proxy-.*|te|trailer|upgrade|expect|transfer-encoding|content-.*|x-email-engine-.*|webhook-.*)$/i;

/** Whether a header belongs to the connection or to this service, and endpoints may therefore not set it. */
export function isReservedHeader(name: string): boolean {
  return RESERVED.test(name);
}
