import Type from 'typebox';
import { CreatedAt, DateTime, IdOf, ListOf, Nullable, ObjectName, OneOf } from '../common.ts';
import { EventType } from '../events.ts';
import { ATTEMPT_OUTCOMES } from '../webhook.ts';

/** Statuses that a replay can select: all except `pending`, whose deliveries are in progress. */
export const REPLAYED_STATUSES = ['delivered', 'failed', 'skipped'] as const;
export type ReplayedStatus = (typeof REPLAYED_STATUSES)[number];

export const REPLAY_STATUSES = ['running', 'completed', 'cancelled'] as const;
export type ReplayStatus = (typeof REPLAY_STATUSES)[number];

/** Selects the deliveries of an endpoint to replay. Fields combine with AND; without fields it selects all. */
export const ReplayFilter = Type.Object(
  {
    since: Type.Optional(DateTime('recorded at or after this time')),
    until: Type.Optional(DateTime('recorded before this time')),
    status: Type.Optional(OneOf(REPLAYED_STATUSES, { description: 'deliveries with this status' })),
    last_outcome: Type.Optional(
      OneOf(ATTEMPT_OUTCOMES, { description: 'deliveries whose last attempt ended like this' }),
    ),
    trigger_events: Type.Optional(
      Type.Array(EventType, { minItems: 1, description: 'deliveries of events of these types' }),
    ),
    account_ids: Type.Optional(
      Type.Array(Type.String(), {
        minItems: 1,
        maxItems: 1000,
        description: '`acc_…`: deliveries of events of these accounts',
      }),
    ),
    email_id: Type.Optional(Type.String({ description: '`email_…`: deliveries about this email' })),
    event_id: Type.Optional(Type.String({ description: '`evt_…`: the delivery of this event' })),
  },
  { $id: 'ReplayFilter', description: 'which deliveries to replay; fields combine with AND' },
);
export type ReplayFilter = Type.Static<typeof ReplayFilter>;

export const CreateReplay = Type.Object(
  { endpoint_id: Type.String({ description: '`we_…`' }), ...ReplayFilter.properties },
  { $id: 'CreateReplay', description: 'a replay to create; without filters it repeats all deliveries of the endpoint' },
);
export type CreateReplay = Type.Static<typeof CreateReplay>;

/** What a replay would repeat. */
export const ReplayCount = Type.Object(
  {
    object: ObjectName('ReplayCount'),
    total: Type.Integer({ description: 'deliveries that match now' }),
  },
  { $id: 'ReplayCount', description: 'what a replay would repeat' },
);
export type ReplayCount = Type.Static<typeof ReplayCount>;

/** A job that replays deliveries of one endpoint. */
export const Replay = Type.Object(
  {
    object: ObjectName('Replay'),
    id: Type.String({ description: '`rpl_…`' }),
    endpoint_id: IdOf('endpoint'),
    filter: ReplayFilter,
    status: OneOf(REPLAY_STATUSES, {
      description:
        '`completed` and `cancelled` are final. A replay is also cancelled when its endpoint is disabled or deleted',
    }),
    total: Type.Integer({ description: 'deliveries that matched when it was created' }),
    pending: Type.Integer({ description: 'deliveries that are queued or will be retried' }),
    delivered: Type.Integer({ description: 'deliveries that succeeded' }),
    failed: Type.Integer({ description: 'deliveries without a retry left' }),
    skipped: Type.Integer({
      description:
        'deliveries whose retry was skipped because the endpoint was disabled or deleted, or whose event was erased',
    }),
    workflow_id: Type.String({ description: 'the workflow in the Temporal UI' }),
    created_at: CreatedAt,
    completed_at: Nullable(DateTime('when it completed or was cancelled; null: running')),
  },
  { $id: 'Replay', description: 'a job that replays deliveries of one endpoint' },
);
export type Replay = Type.Static<typeof Replay>;

export const ReplayList = ListOf('Replays', Replay);
