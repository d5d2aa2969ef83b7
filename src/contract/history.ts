import Type from 'typebox';
import { CursorListOf, DateTime, Nullable, OneOf } from './common.ts';
import { DELIVERY_STATUSES } from './webhook.ts';

export const HISTORY_KINDS = ['send', 'ingested', 'changed', 'event', 'delivery'] as const;
export type HistoryKind = (typeof HISTORY_KINDS)[number];

export const HistoryAttempt = Type.Object(
  {
    number: Type.Integer(),
    at: DateTime(),
    http_status: Nullable(Type.Integer()),
    error: Nullable(Type.String()),
    duration_ms: Type.Integer(),
  },
  { $id: 'HistoryAttempt' },
);

/** One thing that happened to an email or an account; which ids there are depends on its kind. */
export const HistoryEntry = Type.Object(
  {
    at: DateTime(),
    kind: OneOf(HISTORY_KINDS),
    event_id: Type.Optional(Type.String({ description: '`evt_…`' })),
    event_type: Type.Optional(Type.String()),
    sequence: Type.Optional(Type.Integer({ description: 'of the event, per account' })),
    delivery_id: Type.Optional(Type.String({ description: '`whc_…`' })),
    endpoint_id: Type.Optional(Type.String()),
    status: Type.Optional(
      Type.String({ description: `of a delivery: ${DELIVERY_STATUSES.join(', ')}; of a send: its state` }),
    ),
    workflow_id: Type.Optional(Nullable(Type.String({ description: 'the workflow to open in the Temporal UI' }))),
    next_attempt_at: Type.Optional(Nullable(DateTime())),
    attempts: Type.Optional(Type.Array(HistoryAttempt)),
  },
  { $id: 'HistoryEntry' },
);
export type HistoryEntry = Type.Static<typeof HistoryEntry>;

export const History = CursorListOf('History', HistoryEntry);
export type History = Type.Static<typeof History>;

export const RUN_STATUSES = [
  'running',
  'completed',
  'failed',
  'cancelled',
  'terminated',
  'continued_as_new',
  'timed_out',
] as const;
export type RunStatus = (typeof RUN_STATUSES)[number];

/** What a run says of itself. */
export const RunState = Type.Object(
  {
    state: Type.String(),
    since: DateTime(),
    last_error: Nullable(Type.String({ description: 'a class of errors, never a text of the provider' })),
    next_try: Nullable(DateTime()),
    counts: Type.Record(Type.String(), Type.Integer()),
  },
  { $id: 'RunState' },
);

/** One execution of a workflow. */
export const Run = Type.Object(
  {
    object: Type.Literal('Run'),
    workflow_id: Type.String({ description: 'the workflow to open in the Temporal UI' }),
    run_id: Type.String(),
    type: Type.String(),
    status: OneOf(RUN_STATUSES),
    started_at: DateTime(),
    closed_at: Nullable(DateTime()),
    state: Type.Union([RunState, Type.Null()], {
      description: 'null: it has ended, or no worker answered for it in time',
    }),
  },
  { $id: 'Run' },
);
export type Run = Type.Static<typeof Run>;

export const RunList = CursorListOf('Runs', Run);
