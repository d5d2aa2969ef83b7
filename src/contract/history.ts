import Type from 'typebox';
import { CursorListOf, DateTime, Nullable, OneOf } from './common.ts';
import { DELIVERY_STATUSES, WaitingFor } from './webhook.ts';

export const HISTORY_KINDS = ['send', 'ingested', 'changed', 'event', 'delivery'] as const;
export type HistoryKind = (typeof HISTORY_KINDS)[number];

export const HistoryAttempt = Type.Object(
  {
    number: Type.Integer({ description: 'counts from 1' }),
    at: DateTime(),
    http_status: Nullable(Type.Integer({ description: 'null: no response' })),
    error: Nullable(Type.String({ description: 'null: the attempt succeeded' })),
    duration_ms: Type.Integer({ description: 'milliseconds' }),
  },
  { $id: 'HistoryAttempt' },
);

/** One step in the history of an email or an account; `kind` determines which ids are present. */
export const HistoryEntry = Type.Object(
  {
    at: DateTime(),
    kind: OneOf(HISTORY_KINDS),
    event_id: Type.Optional(Type.String({ description: '`evt_…`' })),
    event_type: Type.Optional(Type.String()),
    sequence: Type.Optional(Type.Integer({ description: '`sequence` of the event' })),
    delivery_id: Type.Optional(Type.String({ description: '`whc_…`' })),
    endpoint_id: Type.Optional(Type.String()),
    status: Type.Optional(Type.String({ description: `delivery: ${DELIVERY_STATUSES.join(', ')}; send: its state` })),
    workflow_id: Type.Optional(
      Nullable(Type.String({ description: 'the workflow in the Temporal UI; null: none was started' })),
    ),
    next_attempt_at: Type.Optional(Nullable(DateTime('in the future; null: none has a time'))),
    waiting_for: Type.Optional(Nullable(WaitingFor, 'delivery: what it waits for; null: it is not pending')),
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

/** State that a workflow execution reports. */
export const RunState = Type.Object(
  {
    state: Type.String(),
    since: DateTime(),
    last_error: Nullable(Type.String({ description: 'error class, never text from the provider; null: none' })),
    next_try: Nullable(DateTime('when the next attempt is due; null: none is')),
    counts: Type.Record(Type.String(), Type.Integer()),
  },
  { $id: 'RunState' },
);

/** One execution of a workflow. */
export const Run = Type.Object(
  {
    object: Type.Literal('Run'),
    workflow_id: Type.String({ description: 'the workflow in the Temporal UI' }),
    run_id: Type.String(),
    type: Type.String(),
    status: OneOf(RUN_STATUSES),
    started_at: DateTime(),
    closed_at: Nullable(DateTime('null: still running')),
    state: Type.Union([RunState, Type.Null()], {
      description: 'null: the execution has closed, or no worker responded in time',
    }),
  },
  { $id: 'Run' },
);
export type Run = Type.Static<typeof Run>;

export const RunList = CursorListOf('Runs', Run);
