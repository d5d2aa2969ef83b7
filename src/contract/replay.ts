import Type from 'typebox';
import { DateTime, ListOf, Nullable, OneOf } from './common.ts';
import { EVENT_TYPES } from './events.ts';

/** What a replay can be narrowed to: every status but `pending`, whose deliveries are on their way. */
export const REPLAYED_STATUSES = ['delivered', 'failed', 'skipped'] as const;
export type ReplayedStatus = (typeof REPLAYED_STATUSES)[number];

export const REPLAY_STATUSES = ['running', 'completed', 'cancelled'] as const;
export type ReplayStatus = (typeof REPLAY_STATUSES)[number];

/** Which deliveries of an endpoint a replay makes again; combined with AND, absent: all. */
export const ReplayFilter = Type.Object(
  {
    since: Type.Optional(DateTime('recorded then or later')),
    until: Type.Optional(DateTime('recorded before')),
    status: Type.Optional(OneOf(REPLAYED_STATUSES)),
    trigger_events: Type.Optional(Type.Array(OneOf(EVENT_TYPES), { minItems: 1 })),
    account_ids: Type.Optional(Type.Array(Type.String(), { minItems: 1, maxItems: 1000 })),
  },
  { $id: 'ReplayFilter' },
);
export type ReplayFilter = Type.Static<typeof ReplayFilter>;

export const CreateReplay = Type.Object(
  { endpoint_id: Type.String({ description: '`we_…`' }), ...ReplayFilter.properties },
  { $id: 'CreateReplay' },
);
export type CreateReplay = Type.Static<typeof CreateReplay>;

/** A bulk replay: deliveries of one endpoint that are made again. */
export const Replay = Type.Object(
  {
    object: Type.Literal('Replay'),
    id: Type.String({ description: '`rpl_…`' }),
    endpoint_id: Type.String(),
    filter: ReplayFilter,
    status: OneOf(REPLAY_STATUSES),
    total: Type.Integer({ description: 'deliveries that matched when it was created' }),
    pending: Type.Integer({ description: 'queued, or waiting for a further attempt' }),
    delivered: Type.Integer(),
    failed: Type.Integer({ description: 'no retry is left' }),
    skipped: Type.Integer({ description: 'the endpoint was disabled or deleted meanwhile' }),
    workflow_id: Type.String({ description: 'the workflow to open in the Temporal UI' }),
    created_at: DateTime(),
    completed_at: Nullable(DateTime('when it completed or was cancelled')),
  },
  { $id: 'Replay' },
);
export type Replay = Type.Static<typeof Replay>;

export const ReplayList = ListOf('Replays', Replay);
