import type { FastifyInstance } from 'fastify';
import type pg from 'pg';
import { collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import { readStatistics } from '../db/statistics.ts';

const SECONDS = [0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];

/** Serves `GET /metrics` for Prometheus: this process, its HTTP calls, and the state of the service in the database. */
export function serveMetrics(app: FastifyInstance, pool: pg.Pool): void {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const registers = [registry];

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

  const accounts = new Gauge({
    name: 'accounts',
    help: 'Accounts by status',
    labelNames: ['status'] as const,
    registers,
  });
  const notInSync = new Gauge({
    name: 'accounts_not_in_sync',
    help: 'Accounts that have not been in sync with their mailbox for five minutes',
    registers,
  });
  const differences = new Gauge({
    name: 'mailbox_differences_found',
    help: 'Differences between store and mailboxes that verifications found; they are repaired',
    registers,
  });
  const pending = new Gauge({ name: 'webhook_deliveries_pending', help: 'Deliveries that are pending', registers });
  const age = new Gauge({
    name: 'outbox_age_seconds',
    help: 'Age of the oldest event without a delivery workflow',
    registers,
  });
  const up = new Gauge({ name: 'database_up', help: 'Whether the database responded to this scrape', registers });

  app.get('/metrics', { schema: { hide: true } }, async (_request, reply) => {
    const statistics = await readStatistics(pool).catch(() => undefined);
    up.set(statistics ? 1 : 0);
    if (statistics) {
      accounts.reset();
      for (const { status, count } of statistics.accountsByStatus) accounts.set({ status }, count);
      notInSync.set(statistics.accountsNotInSync);
      differences.set(statistics.differencesFound);
      pending.set(statistics.pendingDeliveries);
      age.set(statistics.outboxAgeSeconds);
    }
    return reply.type(registry.contentType).send(await registry.metrics());
  });
}
