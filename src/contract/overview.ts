import Type from 'typebox';
import { DateTime, Nullable, OneOf } from './common.ts';

export const OVERVIEW_PERIODS = ['hour', 'day'] as const;
export type OverviewPeriod = (typeof OVERVIEW_PERIODS)[number];

export const OverviewBucket = Type.Object(
  {
    at: DateTime('when it begins'),
    received: Type.Integer({ description: 'new emails, as `email.new` and `email.new.bounce` report them' }),
    sent: Type.Integer({ description: 'emails sent by the API' }),
    delivered: Type.Integer({ description: 'deliveries of events recorded then, by what became of them' }),
    failed: Type.Integer(),
    skipped: Type.Integer(),
    pending: Type.Integer(),
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

/** Something that is wrong now. */
export const Problem = Type.Object(
  {
    kind: OneOf(PROBLEM_KINDS),
    id: Type.String({ description: '`acc_…` or `we_…`' }),
    name: Type.String({ description: 'name of the account, URL of the endpoint' }),
    detail: Type.String(),
    since: Nullable(DateTime()),
  },
  { $id: 'Problem' },
);
export type Problem = Type.Static<typeof Problem>;

export const Overview = Type.Object(
  {
    object: Type.Literal('Overview'),
    at: DateTime(),
    accounts: Type.Object({
      total: Type.Integer(),
      running: Type.Integer(),
      errored: Type.Integer(),
      disconnected: Type.Integer(),
      not_in_sync: Type.Integer(),
      importing: Type.Integer({ description: 'whose initial sync is under way' }),
    }),
    endpoints: Type.Object({
      total: Type.Integer(),
      disabled: Type.Integer(),
      failing: Type.Integer(),
    }),
    deliveries: Type.Object({
      pending: Type.Integer({ description: 'at most 100,000 are counted' }),
      oldest_pending_at: Nullable(DateTime()),
    }),
    problems: Type.Array(Problem, { description: 'at most 20 of each kind' }),
    bucket_seconds: Type.Integer(),
    buckets: Type.Array(OverviewBucket, { description: 'oldest first; the last one is under way' }),
  },
  { $id: 'Overview' },
);
export type Overview = Type.Static<typeof Overview>;
