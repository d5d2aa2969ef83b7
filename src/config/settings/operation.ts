import { endpoint, integer, oneOf, text } from '../setting.ts';
import { MAX_PROCESSES } from './api.ts';

export const LOG_LEVELS = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

const LEVELS = Object.fromEntries(LOG_LEVELS.map((level) => [level, level])) as Record<LogLevel, LogLevel>;

/** Workers, and what operators see. */
export const OPERATION = {
  WORKERS: integer(
    '`npm start` and Docker Compose: worker processes. They share the mailboxes; more than one where a worker uses a whole core.',
    'processes',
    1,
    [1, MAX_PROCESSES],
  ),
  WORKER_METRICS_HOST: text('Address on which each worker serves its metrics for Prometheus.', 'address', '127.0.0.1'),
  WORKER_METRICS_PORT: integer(
    'Port of these metrics; `0`: none are served. If it is taken, the next free one, which the log names.',
    'port',
    9464,
    [0, 65_535],
  ),
  LOG_LEVEL: oneOf('Lowest [level](logs.md) that is logged.', LEVELS, 'info'),
  OTEL_EXPORTER_OTLP_ENDPOINT: endpoint(
    'OpenTelemetry collector (OTLP over HTTP) that gets the traces of requests and activities.',
    'no traces',
  ),
};
