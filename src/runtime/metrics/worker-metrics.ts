import { collectDefaultMetrics, Counter, Histogram, Registry } from 'prom-client';
import { onMeasured } from '../measure.ts';

const CALL_SECONDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300];
/** Up to the length of the retry schedule. */
const DELIVERY_SECONDS = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200, 36_000, 172_800];

/** The metrics of a worker process: its measurements (src/runtime/measure.ts), its memory and its event loop. */
export function createWorkerMetrics(): Registry {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  countMail(registry);
  countDeliveries(registry);
  return registry;
}

function countMail(registry: Registry): void {
  const registers = [registry];
  const logins = new Counter({
    name: 'imap_logins_total',
    help: 'Logins at IMAP servers by outcome',
    labelNames: ['outcome'] as const,
    registers,
  });
  for (const outcome of ['accepted', 'refused', 'failed'] as const) logins.inc({ outcome }, 0);
  onMeasured('imapLogin', ({ outcome }) => logins.inc({ outcome }));

  const submissions = new Counter({
    name: 'smtp_submissions_total',
    help: 'Messages given to SMTP servers by outcome; unknown: it may have been accepted',
    labelNames: ['outcome'] as const,
    registers,
  });
  for (const outcome of ['accepted', 'rejected', 'refused_login', 'failed', 'unknown'] as const) {
    submissions.inc({ outcome }, 0);
  }
  onMeasured('smtpSubmission', ({ outcome }) => submissions.inc({ outcome }));

  const tokens = new Counter({
    name: 'oauth_tokens_total',
    help: 'Requests for OAuth 2.0 access tokens by outcome: issued, or whose fault the failure is (owner, app, provider)',
    labelNames: ['outcome'] as const,
    registers,
  });
  for (const outcome of ['issued', 'owner', 'app', 'provider'] as const) tokens.inc({ outcome }, 0);
  onMeasured('oauthToken', ({ outcome }) => tokens.inc({ outcome }));

  const ingested = new Counter({
    name: 'emails_ingested_total',
    help: 'Emails that were new to the store by source: live, api (sent or saved by the API), initialSync',
    labelNames: ['source'] as const,
    registers,
  });
  for (const source of ['live', 'api', 'initialSync'] as const) ingested.inc({ source }, 0);
  onMeasured('ingested', ({ source, count }) => ingested.inc({ source }, count));

  const reparsed = new Counter({
    name: 'emails_reparsed_total',
    help: 'Stored emails that were reparsed by outcome; incomplete: cut short again, unreadable: no source',
    labelNames: ['outcome'] as const,
    registers,
  });
  for (const outcome of ['unchanged', 'changed', 'incomplete', 'unreadable'] as const) reparsed.inc({ outcome }, 0);
  onMeasured('reparsed', ({ outcome, count }) => reparsed.inc({ outcome }, count));
}

function countDeliveries(registry: Registry): void {
  const registers = [registry];
  const attempts = new Counter({
    name: 'webhook_attempts_total',
    help: 'Calls of webhook endpoints by endpoint, outcome and class of the response (2xx, 4xx, …, none)',
    labelNames: ['endpoint_id', 'outcome', 'response'] as const,
    registers,
  });
  const deliveries = new Counter({
    name: 'webhook_deliveries_total',
    help: 'Deliveries that have ended by endpoint and outcome: delivered, failed, skipped',
    labelNames: ['endpoint_id', 'outcome'] as const,
    registers,
  });
  const durations = new Histogram({
    name: 'webhook_attempt_duration_seconds',
    help: 'Duration of calls of webhook endpoints by outcome',
    labelNames: ['outcome'] as const,
    buckets: CALL_SECONDS,
    registers,
  });
  const latency = new Histogram({
    name: 'webhook_commit_to_receipt_seconds',
    help: 'Time from the commit of an event to the response that accepts it, without replays and retries by hand',
    buckets: DELIVERY_SECONDS,
    registers,
  });
  onMeasured('webhookAttempt', ({ endpointId, outcome, httpStatus, durationMs, sinceCommitMs }) => {
    const response = httpStatus === null ? 'none' : `${Math.floor(httpStatus / 100)}xx`;
    attempts.inc({ endpoint_id: endpointId, outcome, response });
    durations.observe({ outcome }, durationMs / 1000);
    if (outcome !== 'retrying') deliveries.inc({ endpoint_id: endpointId, outcome });
    if (outcome === 'delivered' && sinceCommitMs !== null) latency.observe(Math.max(0, sinceCommitMs) / 1000);
  });
  onMeasured('webhookSkipped', ({ endpointId, count }) => {
    deliveries.inc({ endpoint_id: endpointId, outcome: 'skipped' }, count);
  });
}
