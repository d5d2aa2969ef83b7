import Type from 'typebox';
import { DateTime, Nullable, ObjectName, OneOf } from './common.ts';

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
  { $id: 'OverviewBucket', description: 'emails and deliveries of one span of time' },
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
    kind: OneOf(PROBLEM_KINDS, { description: 'what is wrong' }),
    id: Type.String({ description: '`acc_…` or `we_…`' }),
    name: Type.String({ description: 'name of the account; description of the endpoint, or its URL' }),
    detail: Type.String({
      description: '`status_detail` of the account, `disabled_reason` of the endpoint, or how many of its calls failed',
    }),
    since: Nullable(DateTime('when the status began; null: not known')),
    server: Nullable(Type.String({ description: 'IMAP server of the account; null: an endpoint' })),
    server_accounts: Type.Integer({
      description:
        'accounts at this server that cannot be reached or are not in sync, this one included; 0: an endpoint',
    }),
  },
  { $id: 'Problem', description: 'a current problem' },
);
export type Problem = Type.Static<typeof Problem>;

/** Ways in which operators get messages. */
export const ALERT_CHANNELS = ['url', 'email'] as const;
export type AlertChannel = (typeof ALERT_CHANNELS)[number];

export const ALERT_KINDS = [
  'mailbox_disconnected',
  'mailbox_unreachable',
  'server_unreachable',
  'endpoint_failing',
  'backlog',
] as const;
export type AlertKind = (typeof ALERT_KINDS)[number];

/** One problem in a message. */
export interface AlertedProblem {
  kind: AlertKind;
  /** `acc_…` or `we_…`; null: it is about no single object */
  id: string | null;
  name: string;
  detail: string;
  /** mail server; null: it is about no mailbox */
  server: string | null;
  /** mailboxes, or deliveries of a backlog */
  count: number;
  since: string;
  /** null: it is not over */
  ended_at: string | null;
}

/** The body of a call to ALERT_URL. */
export interface AlertMessage {
  object: 'Alert';
  /** `alr_…`; also the header `webhook-id` */
  id: string;
  created_at: string;
  /** address of the installation */
  installation: string;
  /** what to show to people; Slack and Mattermost show it as it is */
  text: string;
  /** problems that began, at most 100, and all of them counted */
  opened: AlertedProblem[];
  opened_total: number;
  /** problems that are over */
  closed: AlertedProblem[];
  closed_total: number;
}

/** State of the alerts, in the overview. */
export const Alerts = Type.Object(
  {
    channels: Type.Array(
      Type.Object({
        channel: OneOf(ALERT_CHANNELS, { description: '`url`: calls of `ALERT_URL`; `email`: mail to `ALERT_EMAIL`' }),
        is_on: Type.Boolean({ description: 'it is set' }),
        last: Nullable(
          Type.Object({
            at: DateTime('when the message was made'),
            sent_at: Nullable(DateTime('null: not sent')),
            text: Type.String({ description: 'the message' }),
            error: Nullable(Type.String({ description: 'of its last attempt; null: none failed' })),
          }),
          'the newest message; null: none in the last 30 days',
        ),
      }),
      { description: 'the ways in which operators get messages' },
    ),
    backlog: Type.Integer({ description: '`ALERT_BACKLOG`; 0: no alert' }),
    open: Type.Integer({ description: 'problems that a message has reported and that are not over' }),
  },
  { $id: 'Alerts', description: 'how operators are alerted, and how many problems are open' },
);
export type Alerts = Type.Static<typeof Alerts>;

export const Overview = Type.Object(
  {
    object: ObjectName('Overview'),
    at: DateTime('when it was read'),
    accounts: Type.Object(
      {
        total: Type.Integer({ description: 'all accounts' }),
        running: Type.Integer({ description: 'accounts with this status' }),
        errored: Type.Integer({ description: 'accounts with this status' }),
        disconnected: Type.Integer({ description: 'accounts with this status' }),
        not_in_sync: Type.Integer({ description: 'accounts that are not in sync with their mailbox' }),
        importing: Type.Integer({ description: 'accounts whose initial sync is in progress' }),
      },
      { description: 'counts of accounts' },
    ),
    endpoints: Type.Object(
      {
        total: Type.Integer({ description: 'all endpoints' }),
        disabled: Type.Integer({ description: 'disabled endpoints' }),
        failing: Type.Integer({ description: 'enabled endpoints whose last call failed' }),
      },
      { description: 'counts of endpoints' },
    ),
    deliveries: Type.Object(
      {
        pending: Type.Integer({ description: 'pending deliveries, counted up to 100,000' }),
        oldest_pending_at: Nullable(DateTime('null: none is pending')),
      },
      { description: 'deliveries that wait' },
    ),
    problems: Type.Array(Problem, { description: 'at most 20 of each kind' }),
    alerts: Alerts,
    bucket_seconds: Type.Integer({ description: 'length of a bucket' }),
    buckets: Type.Array(OverviewBucket, { description: 'oldest first; the last one is not complete yet' }),
  },
  { $id: 'Overview', description: 'the state of the installation' },
);
export type Overview = Type.Static<typeof Overview>;
