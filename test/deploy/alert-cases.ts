/*
 * Situations for the alerts of deploy/prometheus/alerts.yml. Series are in the notation of promtool, one sample a minute:
 * `a+bxn` is a, then n times b more; `_` is a failed scrape; `stale` is a series that has ended.
 */

export interface AlertCase {
  alert: string;
  situation: string;
  series: Record<string, string>;
  /** minutes after the first sample */
  at: number;
  /** number of alerts that fire then */
  fires: number;
}

const API = 'database_up{instance="a"}';
const WORKER = (instance: string) => `emails_ingested_total{source="live",instance="${instance}"}`;
const ATTEMPTS = 'webhook_attempts_total{endpoint_id="we_1",outcome="delivered",response="2xx"}';
const FAILED = 'webhook_deliveries_total{endpoint_id="we_1",outcome="failed"}';
const DIFFERENCES = 'mailbox_differences_found{instance="a"}';
const LOGINS = (outcome: string) => `imap_logins_total{outcome="${outcome}"}`;
const CALLS = (status: string) => `http_request_duration_seconds_count{status="${status}",route="/x"}`;
const UNKNOWN = 'smtp_submissions_total{outcome="unknown",instance="a"}';
const LAG = 'nodejs_eventloop_lag_p99_seconds{instance="a"}';
const DUE = 'webhook_deliveries_waiting{reason="due"}';
const histogram = (name: string, le: string) => `${name}_bucket{le="${le}"}`;
const SLOW = 'webhook_commit_to_receipt_seconds';
const BUSY = 'temporal_workflow_task_schedule_to_start_latency_seconds';

/** The same series as two API processes serve them. */
const twice = (series: Record<string, string>): AlertCase['series'] =>
  Object.fromEntries(
    Object.entries(series).flatMap(([name, values]) =>
      ['a', 'b'].map((instance) => [
        name.includes('{') ? name.replace('}', `,instance="${instance}"}`) : `${name}{instance="${instance}"}`,
        values,
      ]),
    ),
  );

const one = (alert: string, fires: number, at: number, situation: string, series: AlertCase['series']): AlertCase => ({
  ...{ alert, situation, series, at, fires },
});

export const ALERT_CASES: AlertCase[] = [
  one('EmailApiMissing', 1, 5, 'the API is down', { [API]: '1 stale', [WORKER('w1')]: '0x9' }),
  one('EmailApiMissing', 1, 5, 'nothing was ever scraped', {}),
  one('EmailApiMissing', 0, 5, 'one of two is down', { [API]: '1 stale', 'database_up{instance="b"}': '1x9' }),
  one('EmailApiMissing', 0, 5, 'its database is away', { [API]: '0x9' }),
  one('EmailApiGone', 1, 9, 'one of two is down', { [API]: '1x3 stale', 'database_up{instance="b"}': '1x9' }),
  one('EmailApiGone', 0, 9, 'one was added', { [API]: '1x9', 'database_up{instance="b"}': '_x4 1x5' }),
  one('EmailApiGone', 0, 8, 'a scrape failed', { [API]: '1x3 _ 1x9', 'database_up{instance="b"}': '1x13' }),
  one('EmailApiGone', 0, 80, 'one was removed an hour ago', {
    [API]: '1x5 stale',
    'database_up{instance="b"}': '1x90',
  }),
  one('EmailWorkerMissing', 1, 5, 'the only worker is down', { [WORKER('w1')]: '0 stale', [API]: '1x9' }),
  one('EmailWorkerMissing', 0, 5, 'one of two is down', { [WORKER('w1')]: '0 stale', [WORKER('w2')]: '0x9' }),
  one('EmailWorkerGone', 1, 9, 'one of two is down', { [WORKER('w1')]: '0x3 stale', [WORKER('w2')]: '0x9' }),
  one('EmailWorkerGone', 0, 9, 'both run', { [WORKER('w1')]: '0x9', [WORKER('w2')]: '0x9' }),
  one('EmailWorkerGone', 0, 9, 'one was restarted', { [WORKER('w1')]: '7x3 stale 0x5', [WORKER('w2')]: '0x9' }),
  one('EmailWorkerGone', 0, 80, 'one was removed an hour ago', { [WORKER('w1')]: '0x5 stale', [WORKER('w2')]: '0x90' }),
  one('EmailDatabaseAway', 1, 5, 'Postgres is down', { [API]: '1 0x9' }),
  one('EmailDatabaseAway', 0, 5, 'Postgres missed one scrape', { [API]: '1x3 0 1x9' }),

  one('EmailOutboxOld', 1, 9, 'no worker runs', { outbox_age_seconds: '0+60x9', [ATTEMPTS]: '5 stale' }),
  one('EmailOutboxOld', 1, 9, 'no worker has ever run', { outbox_age_seconds: '0+60x9' }),
  one('EmailOutboxOld', 1, 19, 'workers run and attempt nothing', {
    outbox_age_seconds: '0+60x19',
    [ATTEMPTS]: '5x19',
  }),
  one('EmailOutboxOld', 0, 9, 'an endpoint is slow', { outbox_age_seconds: '0+60x9', [ATTEMPTS]: '0+40x9' }),
  one('EmailOutboxOld', 0, 9, 'an endpoint fails', {
    outbox_age_seconds: '0+60x9',
    'webhook_attempts_total{endpoint_id="we_1",outcome="retrying",response="5xx"}': '0+4x9',
  }),
  one('EmailOutboxOld', 0, 9, 'nothing is due', { outbox_age_seconds: '0x9' }),
  one('EmailEndpointSlow', 1, 30, 'an endpoint is slow', { outbox_age_seconds: '0+60x30', [ATTEMPTS]: '0+40x30' }),
  one('EmailEndpointSlow', 1, 30, 'an endpoint is slow, and two API processes say so', {
    ...twice({ outbox_age_seconds: '0+60x30' }),
    [ATTEMPTS]: '0+40x30',
  }),
  one('EmailEndpointSlow', 0, 30, 'it keeps up', { outbox_age_seconds: '40x30', [ATTEMPTS]: '0+40x30' }),
  one('EmailEndpointSlow', 0, 30, 'no worker runs', { outbox_age_seconds: '0+60x30', [ATTEMPTS]: '5 stale' }),
  one('EmailDeliveryBacklog', 1, 15, 'many are due', { [DUE]: '1500x15' }),
  one('EmailDeliveryBacklog', 0, 15, 'many are due for a moment', { [DUE]: '1500x5 20x10' }),
  one('EmailDeliveryBacklog', 0, 15, 'many wait for a retry', {
    'webhook_deliveries_waiting{reason="retry"}': '1500x15',
  }),
  one('EmailDeliverySlow', 1, 40, 'receipts take a minute', {
    [histogram(SLOW, '30')]: '0x40',
    [histogram(SLOW, '60')]: '0+9x40',
    [histogram(SLOW, '+Inf')]: '0+9x40',
  }),
  one('EmailDeliverySlow', 0, 40, 'receipts take a second', {
    [histogram(SLOW, '1')]: '0+9x40',
    [histogram(SLOW, '30')]: '0+9x40',
    [histogram(SLOW, '+Inf')]: '0+9x40',
  }),
  one('EmailDeliverySlow', 0, 40, 'nothing is delivered', {
    [histogram(SLOW, '30')]: '5x40',
    [histogram(SLOW, '+Inf')]: '9x40',
  }),
  one('EmailDeliveriesFailed', 1, 20, 'the first delivery fails', { [FAILED]: '_x10 1x20' }),
  one('EmailDeliveriesFailed', 1, 200, 'another one fails', { [FAILED]: '3x180 4x40' }),
  one('EmailDeliveriesFailed', 1, 200, 'the first one fails after a restart', { [FAILED]: '3x90 stale _x90 1x40' }),
  one('EmailDeliveriesFailed', 0, 200, 'one failed hours ago', { [FAILED]: '_x10 1x200' }),
  one('EmailDeliveriesFailed', 0, 20, 'all are delivered', {
    'webhook_deliveries_total{endpoint_id="we_1",outcome="delivered"}': '_x5 1+3x20',
  }),
  one('EmailBreakerOpen', 1, 40, 'an endpoint is down', { 'webhook_breaker_open{endpoint_id="we_1"}': '1x40' }),
  one('EmailBreakerOpen', 1, 40, 'an endpoint is down, and scrapes fail', {
    'webhook_breaker_open{endpoint_id="we_1"}': '1x9 stale 1x9 stale 1x9 stale 1x9',
  }),
  one('EmailBreakerOpen', 0, 40, 'its breaker was closed for some minutes', {
    'webhook_breaker_open{endpoint_id="we_1"}': '1x20 stale _x3 1x20',
  }),
  one('EmailBreakerOpen', 0, 40, 'it was down for a moment', {
    'webhook_breaker_open{endpoint_id="we_1"}': '1x20 stale',
  }),

  one('EmailAccountsNotInSync', 1, 9, 'one account is behind', { accounts_not_in_sync: '0 1x9' }),
  one('EmailAccountsNotInSync', 0, 9, 'it was for a moment', { accounts_not_in_sync: '0 1x3 0x9' }),
  one('EmailSyncLag', 1, 15, 'no worker watches', { 'accounts_sync_lag_seconds{stat="p95"}': '0+60x15' }),
  one('EmailSyncLag', 0, 15, 'one mailbox of many is behind', {
    'accounts_sync_lag_seconds{stat="max"}': '0+60x15',
    'accounts_sync_lag_seconds{stat="p95"}': '30x15',
  }),
  one('EmailStoreDiffered', 1, 300, 'a verification found some', { [API]: '1x300', [DIFFERENCES]: '4x200 6x100' }),
  one('EmailStoreDiffered', 1, 300, 'one was found, and an account removed later', {
    [API]: '1x300',
    [DIFFERENCES]: '4x100 6x100 2x100',
  }),
  one('EmailStoreDiffered', 0, 300, 'an account was removed', { [API]: '1x300', [DIFFERENCES]: '4x200 1x100' }),
  one('EmailStoreDiffered', 0, 300, 'the API was restarted while the database was away', {
    [API]: '1x100 stale 0x5 1x194',
    [DIFFERENCES]: '4x100 stale 0x5 4x194',
  }),
  one('EmailStoreDiffered', 0, 2000, 'some were found yesterday', { [API]: '1x2000', [DIFFERENCES]: '4x200 6x1800' }),
  ...[
    one('EmailOutboxOld', 1, 9, 'no worker runs', { outbox_age_seconds: '0+60x9' }),
    one('EmailDeliveryBacklog', 1, 15, 'many are due', { [DUE]: '1500x15' }),
    one('EmailBreakerOpen', 1, 40, 'an endpoint is down', { 'webhook_breaker_open{endpoint_id="we_1"}': '1x40' }),
    one('EmailAccountsNotInSync', 1, 9, 'one account is behind', { accounts_not_in_sync: '0 1x9' }),
    one('EmailSyncLag', 1, 15, 'no worker watches', { 'accounts_sync_lag_seconds{stat="p95"}': '0+60x15' }),
    one('EmailStoreDiffered', 1, 300, 'a verification found some', {
      database_up: '1x300',
      mailbox_differences_found: '4x200 6x100',
    }),
    one('EmailOAuthAppFailing', 1, 2, 'a client secret has expired', { oauth_apps_failing: '0 1x2' }),
  ].map((given) => ({
    ...given,
    situation: `${given.situation}, and two API processes say so`,
    series: twice(given.series),
  })),

  one('EmailOAuthAppFailing', 1, 2, 'a client secret has expired', { oauth_apps_failing: '0 1x2' }),
  one('EmailOAuthAppFailing', 0, 9, 'none fails', { oauth_apps_failing: '0x9' }),
  one('EmailLoginsRefused', 1, 40, 'a provider refuses', {
    [LOGINS('refused')]: '0+3x40',
    [LOGINS('accepted')]: '0+1x40',
  }),
  one('EmailLoginsRefused', 0, 40, 'a few are refused', {
    [LOGINS('refused')]: '0+1x40',
    [LOGINS('accepted')]: '0+9x40',
  }),
  one('EmailLoginsRefused', 0, 40, 'no mailbox logs in', { [LOGINS('refused')]: '8x40', [LOGINS('accepted')]: '9x40' }),
  one('EmailSendsUnknown', 1, 20, 'a submission broke off', { [UNKNOWN]: '0x10 1x10' }),
  one('EmailSendsUnknown', 0, 200, 'one did hours ago', { [UNKNOWN]: '0x10 1x200' }),
  one('EmailSendsUnknown', 0, 20, 'the worker was restarted', { [UNKNOWN]: '3x10 0x10' }),
  one('EmailEventLoopLate', 1, 9, 'the CPU is busy', { [LAG]: '3x9' }),
  one('EmailEventLoopLate', 0, 9, 'it was for a moment', { [LAG]: '3x4 0.02x9' }),
  one('EmailApiErrors', 1, 15, 'calls fail', { [CALLS('500')]: '0+2x15', [CALLS('200')]: '0+9x15' }),
  one('EmailApiErrors', 0, 15, 'callers are wrong', { [CALLS('404')]: '0+9x15', [CALLS('200')]: '0+9x15' }),
  one('EmailApiErrors', 0, 15, 'one call of many failed', { [CALLS('500')]: '0x9 1x6', [CALLS('200')]: '0+90x15' }),
  one('EmailWorkersBusy', 1, 15, 'tasks wait', {
    [histogram(BUSY, '5')]: '0x15',
    [histogram(BUSY, '10')]: '0+9x15',
    [histogram(BUSY, '+Inf')]: '0+9x15',
  }),
  one('EmailWorkersBusy', 0, 15, 'tasks do not wait', {
    [histogram(BUSY, '0.1')]: '0+9x15',
    [histogram(BUSY, '5')]: '0+9x15',
    [histogram(BUSY, '+Inf')]: '0+9x15',
  }),
];
