import Type from 'typebox';
import { DateTime, ListOf, Nullable, OneOf } from '../common.ts';
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
    status: Type.Optional(OneOf(REPLAYED_STATUSES)),
    last_outcome: Type.Optional(
      OneOf(ATTEMPT_OUTCOMES, { description: 'deliveries whose last attempt ended like this' }),
    ),
    trigger_events: Type.Optional(Type.Array(EventType, { minItems: 1 })),
    account_ids: Type.Optional(Type.Array(Type.String(), { minItems: 1, maxItems: 1000 })),
    email_id: Type.Optional(Type.String({ description: '`email_…`: deliveries about this email' })),
    event_id: Type.Optional(Type.String({ description: '`evt_…`: the delivery of this event' })),
  },
  { $id: 'ReplayFilter' },
);
export type ReplayFilter = Type.Static<typeof ReplayFilter>;

export const CreateReplay = Type.Object(
  { endpoint_id: Type.String({ description: '`we_…`' }), ...ReplayFilter.properties },
  { $id: 'CreateReplay' },
);
export type CreateReplay = Type.Static<typeof CreateReplay>;

/** What a replay would repeat. */
export const ReplayCount = Type.Object(
  {
    object: Type.Literal('ReplayCount'),
    total: Type.Integer({ description: 'deliveries that match now' }),
  },
  { $id: 'ReplayCount' },
);
export type ReplayCount = Type.Static<typeof ReplayCount>;

/** A job that replays deliveries of one endpoint. */
export const Replay = Type.Object(
  {
    object: Type.Literal('Replay'),
    id: Type.String({ description: '`rpl_…`' }),
    endpoint_id: Type.String(),
    filter: ReplayFilter,
    status: OneOf(REPLAY_STATUSES),
    total: Type.Integer({ description: 'deliveries that matched when it was created' }),
    pending: Type.Integer({ description: 'deliveries that are queued or will be retried' }),
    delivered: Type.Integer({ description: 'deliveries that succeeded' }),
    failed: Type.Integer({ description: 'deliveries without a retry left' }),
    skipped: Type.Integer({ description: 'deliveries skipped because the endpoint was disabled or deleted' }),
    workflow_id: Type.String({ description: 'the workflow in the Temporal UI' }),
    created_at: DateTime(),
    completed_at: Nullable(DateTime('when it completed or was cancelled; null: running')),
  },
  { $id: 'Replay' },
);
export type Replay = Type.Static<typeof Replay>;

export const ReplayList = ListOf('Replays', Replay);
