import Type from 'typebox';
import { CursorListOf, DateTime, IdOf, Nullable, ObjectName, OneOf } from './common.ts';
import { DELIVERY_STATUSES, WaitingFor } from './webhook.ts';

export const HISTORY_KINDS = ['send', 'ingested', 'changed', 'event', 'delivery'] as const;
export type HistoryKind = (typeof HISTORY_KINDS)[number];

export const HistoryAttempt = Type.Object(
  {
    number: Type.Integer({ description: 'counts from 1' }),
    at: DateTime('when it was made'),
    http_status: Nullable(Type.Integer({ description: 'null: no response' })),
    error: Nullable(Type.String({ description: 'null: the attempt succeeded' })),
    duration_ms: Type.Integer({ description: 'milliseconds' }),
  },
  { $id: 'HistoryAttempt', description: 'one attempt at a delivery' },
);

/** One step in the history of an email or an account; `kind` determines which ids are present. */
export const HistoryEntry = Type.Object(
  {
    at: DateTime('when it happened'),
    kind: OneOf(HISTORY_KINDS, {
      description:
        '`send`: the API sent it; `ingested`: it was stored; `changed`: it was changed; `event`: another event; `delivery`: of an event',
    }),
    event_id: Type.Optional(Type.String({ description: '`evt_…`' })),
    event_type: Type.Optional(Type.String({ description: 'an EventType' })),
    sequence: Type.Optional(Type.Integer({ description: '`sequence` of the event' })),
    delivery_id: Type.Optional(Type.String({ description: '`whc_…`' })),
    endpoint_id: Type.Optional(IdOf('endpoint')),
    status: Type.Optional(Type.String({ description: `delivery: ${DELIVERY_STATUSES.join(', ')}; send: its state` })),
    workflow_id: Type.Optional(
      Nullable(Type.String({ description: 'the workflow in the Temporal UI; null: none was started' })),
    ),
    next_attempt_at: Type.Optional(Nullable(DateTime('in the future; null: none has a time'))),
    waiting_for: Type.Optional(Nullable(WaitingFor, 'delivery: what it waits for; null: it is not pending')),
    attempts: Type.Optional(Type.Array(HistoryAttempt, { description: 'delivery: its attempts, the first one first' })),
  },
  { $id: 'HistoryEntry', description: 'one step; `kind` determines which ids are present' },
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
    state: Type.String({ description: 'what it is doing, for people; may change' }),
    since: DateTime('when this state began'),
    last_error: Nullable(Type.String({ description: 'error class, never text from the provider; null: none' })),
    next_try: Nullable(DateTime('when the next attempt is due; null: none is')),
    counts: Type.Record(Type.String(), Type.Integer(), { description: 'figures of its progress, by name' }),
  },
  { $id: 'RunState', description: 'the state that a workflow execution reports' },
);

/** One execution of a workflow. */
export const Run = Type.Object(
  {
    object: ObjectName('Run'),
    workflow_id: Type.String({ description: 'the workflow in the Temporal UI' }),
    run_id: Type.String({ description: 'id of the execution in Temporal' }),
    type: Type.String({ description: 'name of the workflow' }),
    status: OneOf(RUN_STATUSES, { description: 'status in Temporal' }),
    started_at: DateTime('when it was started'),
    closed_at: Nullable(DateTime('null: still running')),
    state: Type.Union([RunState, Type.Null()], {
      description: 'null: the execution has closed, or no worker responded in time',
    }),
  },
  { $id: 'Run', description: 'one execution of a workflow' },
);
export type Run = Type.Static<typeof Run>;

export const RunList = CursorListOf('Runs', Run);
