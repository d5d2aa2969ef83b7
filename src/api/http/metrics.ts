import type { FastifyInstance } from 'fastify';
import type pg from 'pg';
import { collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import { metricsOfAll } from './server-group.ts';
import { readStatistics, type Statistics, WAIT_REASONS } from '../../db/queries/statistics.ts';

const SECONDS = [0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];

/** Serves `GET /metrics` for Prometheus: the API processes, their HTTP calls, and statistics from the database. */
export function serveMetrics(app: FastifyInstance, pool: pg.Pool): void {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const registers = [registry];
  /** statistics from the database, the same in every process */
  const shared = new Registry();

  const durations = new Histogram({
    name: 'http_request_duration_seconds',
    help: 'Duration of HTTP calls by route',
    labelNames: ['method', 'route', 'status'] as const,
    buckets: SECONDS,
    registers,
  });
  app.addHook('onResponse', (request, reply, done) => {
    const route = request.routeOptions.url ?? 'unknown';
    durations.observe({ method: request.method, route, status: reply.statusCode }, reply.elapsedTime / 1000);
    done();
  });

  const show = statisticsGauges(shared);
  const ofProcesses = metricsOfAll(registry);
  app.get('/metrics', { schema: { hide: true } }, async (_request, reply) => {
    show(await readStatistics(pool).catch(() => undefined));
    return reply.type(registry.contentType).send(`${await ofProcesses()}\n${await shared.metrics()}`);
  });
}

/** Registers the gauges of the database. They hold their last values while it does not respond. */
function statisticsGauges(registry: Registry): (statistics: Statistics | undefined) => void {
  const gauge = <Label extends string = never>(name: string, help: string, labelNames: Label[] = []) =>
    new Gauge<Label>({ name, help, labelNames, registers: [registry] });
  const up = gauge('database_up', 'Whether the database responded to this scrape');
  const accounts = gauge('accounts', 'Accounts by status', ['status']);
  const notInSync = gauge(
    'accounts_not_in_sync',
    'Accounts that have not been in sync with their mailbox for 5 minutes',
  );
  const lag = gauge('accounts_sync_lag_seconds', 'Time since accounts were in sync: max, and quantiles over all', [
    'stat',
  ]);
  const differences = gauge(
    'mailbox_differences_found',
    'Differences between store and mailboxes that verifications found and repaired',
  );
  const incomplete = gauge('emails_incomplete', 'Stored emails whose parsing hit a limit; they are reparsed later');
  const failingApps = gauge('oauth_apps_failing', 'OAuth apps that their provider refuses');
  const pending = gauge('webhook_deliveries_pending', 'Pending deliveries');
  const waiting = gauge('webhook_deliveries_waiting', 'Pending deliveries by reason for waiting', ['reason']);
  const age = gauge('outbox_age_seconds', 'Time since the oldest unblocked delivery was due');
  const endpoints = gauge('webhook_endpoints', 'Endpoints by state of the circuit breaker', ['state']);
  const breakers = gauge('webhook_breaker_open', '1 for each endpoint whose circuit breaker is open', ['endpoint_id']);

  return (statistics) => {
    up.set(statistics ? 1 : 0);
    if (!statistics) return;
    accounts.reset();
    for (const { status, count } of statistics.accountsByStatus) accounts.set({ status }, count);
    notInSync.set(statistics.accountsNotInSync);
    for (const stat of ['max', 'p95', 'p50'] as const) lag.set({ stat }, statistics.syncLag?.[stat] ?? 0);
    differences.set(statistics.differencesFound);
    incomplete.set(statistics.incompleteEmails);
    failingApps.set(statistics.failingApps);
    pending.set(Object.values(statistics.waiting).reduce((sum, count) => sum + count, 0));
    for (const reason of WAIT_REASONS) waiting.set({ reason }, statistics.waiting[reason]);
    age.set(statistics.outboxAgeSeconds);
    for (const [state, count] of Object.entries(statistics.endpoints)) endpoints.set({ state }, count);
    breakers.reset();
    for (const id of statistics.openBreakers) breakers.set({ endpoint_id: id }, 1);
  };
}
