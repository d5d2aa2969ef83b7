import Type, { type TSchema } from 'typebox';
import { Described, Nullable } from '../../contract/common.ts';
import { EVENT_DATA, EVENT_TYPES, EventEnvelope, type EventType } from '../../contract/events.ts';
import { sampleData, SAMPLE_ACCOUNT_ID } from '../../contract/sample-events.ts';

/** The name of the schema of events of a type: `EmailDraftNewEvent` for `email.draft.new`. */
const nameOf = (type: EventType) =>
  `${type.replace(/(?:^|[._])([a-z])/g, (_, first: string) => first.toUpperCase())}Event`;

const EndpointId = Nullable(
  Type.String(),
  '`we_…` of the endpoint that receives this request; null: it is in the event feed',
);

/** A schema for each type of event, as it is delivered and as the feed lists it. */
export const EVENT_SCHEMAS: readonly (TSchema & { $id: string })[] = EVENT_TYPES.map((type) =>
  Object.assign(
    Type.Object({
      ...EventEnvelope.properties,
      type: Type.Literal(type, { description: 'type of the event' }),
      endpoint_id: EndpointId,
      data: Described(EVENT_DATA[type], 'what happened'),
    }),
    {
      $id: nameOf(type),
      description: `the event \`${type}\``,
    },
  ),
);

const SIGNATURES = {
  'X-Email-Engine-Event': 'type of the event',
  'X-Email-Engine-Delivery': '`whc_…` of the delivery',
  'X-Email-Engine-Signature': '`sha256=` and the HMAC-SHA256 of the body in hex; the key is the whole `secret`',
  'webhook-id': '`evt_…`',
  'webhook-timestamp': 'time of the attempt, in seconds since 1970',
  'webhook-signature': 'signatures by Standard Webhooks, separated by spaces',
};

const PARAMETERS = Object.entries(SIGNATURES).map(([name, description]) => ({
  ...{ name, in: 'header', required: true, description },
  schema: { type: 'string' },
}));

/**
 * Adds the calls that endpoints receive (OpenAPI 3.1, `webhooks`), and the union of all events, which the feed lists: some
 * generators make types only of what an operation has.
 */
export function addEvents<Document extends object>(document: Document): Document {
  const reference = (type: EventType) => `#/components/schemas/${nameOf(type)}`;
  const { components = {} } = document as { components?: { schemas?: Record<string, unknown> } };
  const union = {
    oneOf: EVENT_TYPES.map((type) => ({ $ref: reference(type) })),
    discriminator: {
      propertyName: 'type',
      mapping: Object.fromEntries(EVENT_TYPES.map((type) => [type, reference(type)])),
    },
  };
  const webhooks = Object.fromEntries(EVENT_TYPES.map((type) => [type, { post: callOf(type, reference(type)) }]));
  const unions = {
    AnyEvent: { description: 'Any event, as endpoints receive it', ...union },
    ListedEvent: { description: 'an event in the event feed', ...union },
  };
  return { ...document, components: { ...components, schemas: { ...components.schemas, ...unions } }, webhooks };
}

function callOf(type: EventType, $ref: string) {
  return {
    operationId: `on${nameOf(type)}`,
    summary: type,
    description: 'See docs/webhooks.md for what it means, and how to verify the signature.',
    tags: ['Webhooks'],
    security: [],
    parameters: PARAMETERS,
    requestBody: { required: true, content: { 'application/json': { schema: { $ref }, example: exampleOf(type) } } },
    responses: {
      '2XX': { description: 'accepted: respond before you process the event' },
      '410': { description: 'the endpoint is gone: it is disabled' },
      default: { description: 'another attempt follows' },
    },
  };
}

const AT = new Date(Date.UTC(2026, 0, 31, 9, 30));

function exampleOf(type: EventType): Omit<EventEnvelope, 'test'> {
  return {
    object: 'Event',
    id: SAMPLE_ACCOUNT_ID.replace('acc_', 'evt_'),
    type,
    created_at: AT.toISOString(),
    account_id: SAMPLE_ACCOUNT_ID,
    endpoint_id: SAMPLE_ACCOUNT_ID.replace('acc_', 'we_'),
    sequence: 17,
    data: sampleData(type, SAMPLE_ACCOUNT_ID, AT) as Record<string, unknown>,
  };
}
