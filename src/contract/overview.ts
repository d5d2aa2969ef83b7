import Type from 'typebox';
import { DateTime, Nullable, OneOf } from './common.ts';

export const OVERVIEW_PERIODS = ['hour', 'day'] as const;
export type OverviewPeriod = (typeof OVERVIEW_PERIODS)[number];

export const OverviewBucket = Type.Object(
  {
    at: DateTime('start of the bucket'),
    received: Type.Integer({ description: 'new emails: `email.new` and `email.new.bounce`' }),
    sent: Type.Integer({ description: 'emails sent by the API' }),
    delivered: Type.Integer({ description: 'events recorded in this bucket that were delivered' }),
    attempts_ok: Type.Integer({ description: 'calls to endpoints in this bucket that succeeded' }),
    attempts_failed: Type.Integer({
      description: 'calls to endpoints in this bucket that failed, whether or not a retry follows',
    }),
    failed: Type.Integer({ description: 'deliveries without a retry left' }),
    skipped: Type.Integer({ description: 'deliveries to endpoints that were disabled or deleted' }),
    pending: Type.Integer({ description: 'deliveries that are queued or will be retried' }),
  },
  { $id: 'OverviewBucket' },
);
export type OverviewBucket = Type.Static<typeof OverviewBucket>;

export const PROBLEM_KINDS = [
  'account_disconnected',
  'account_errored',
  'account_not_in_sync',
  'endpoint_disabled',
  'endpoint_failing',
] as const;
export type ProblemKind = (typeof PROBLEM_KINDS)[number];

/** A current problem. */
export const Problem = Type.Object(
  {
    kind: OneOf(PROBLEM_KINDS),
    id: Type.String({ description: '`acc_…` or `we_…`' }),
    name: Type.String({ description: 'name of the account; description of the endpoint, or its URL' }),
    detail: Type.String(),
    since: Nullable(DateTime('when the status began; null: not known')),
  },
  { $id: 'Problem' },
);
export type Problem = Type.Static<typeof Problem>;

export const Overview = Type.Object(
  {
    object: Type.Literal('Overview'),
    at: DateTime(),
    accounts: Type.Object({
      total: Type.Integer({ description: 'all accounts' }),
      running: Type.Integer({ description: 'accounts with this status' }),
      errored: Type.Integer({ description: 'accounts with this status' }),
      disconnected: Type.Integer({ description: 'accounts with this status' }),
      not_in_sync: Type.Integer({ description: 'accounts that are not in sync with their mailbox' }),
      importing: Type.Integer({ description: 'accounts whose initial sync is in progress' }),
    }),
    endpoints: Type.Object({
      total: Type.Integer({ description: 'all endpoints' }),
      disabled: Type.Integer({ description: 'disabled endpoints' }),
      failing: Type.Integer({ description: 'enabled endpoints whose last call failed' }),
    }),
    deliveries: Type.Object({
      pending: Type.Integer({ description: 'pending deliveries, counted up to 100,000' }),
      oldest_pending_at: Nullable(DateTime('null: none is pending')),
    }),
    problems: Type.Array(Problem, { description: 'at most 20 of each kind' }),
    bucket_seconds: Type.Integer({ description: 'length of a bucket' }),
    buckets: Type.Array(OverviewBucket, { description: 'oldest first; the last one is not complete yet' }),
  },
  { $id: 'Overview' },
);
export type Overview = Type.Static<typeof Overview>;
