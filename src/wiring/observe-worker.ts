import type { Config } from '../config/config.ts';
import type { Logger } from '../runtime/logger.ts';
import {
  freeLoopbackPort,
  type MetricsServer,
  type MetricsServerOptions,
  serveMetrics,
} from '../runtime/metrics/serve.ts';
import { createWorkerMetrics } from '../runtime/metrics/worker-metrics.ts';
import type { Tracing } from '../runtime/tracing.ts';
import { installRuntime } from '../temporal/runtime.ts';

/** Metrics and traces of a worker process, as far as the settings ask for them. */
export interface Observed {
  tracing: Tracing | undefined;
  /** Reports that the worker takes work: to the process that started it, and by `GET /ready`. */
  ready(): void;
  close(): Promise<void>;
}

/** Installs the runtime of Temporal's SDK, and starts the metrics and traces. Both are optional: a failure is logged. */
export async function observeWorker({ workerMetrics, otlpEndpoint }: Config, logger: Logger): Promise<Observed> {
  // the packages of OpenTelemetry are loaded only where an endpoint is set
  const tracing = otlpEndpoint
    ? (await import('../runtime/tracing.ts')).startTracing(otlpEndpoint, 'email-worker')
    : undefined;
  const sdkAddress = workerMetrics ? `127.0.0.1:${await freeLoopbackPort()}` : undefined;
  installRuntime(logger, sdkAddress);
  let isReady = false;
  const options = workerMetrics && { ...workerMetrics, ...(sdkAddress ? { sdkAddress } : {}), isReady: () => isReady };
  const metrics = options && (await startMetrics(options, logger));
  return {
    tracing,
    ready() {
      isReady = true;
      process.send?.('ready');
    },
    async close() {
      await metrics?.close();
      if (tracing) await tracing.close().catch((err: unknown) => logger.warn({ err }, 'could not send the last spans'));
    },
  };
}

/** Starts the metrics; a worker also runs without them. */
async function startMetrics(
  options: Omit<MetricsServerOptions, 'registry'>,
  logger: Logger,
): Promise<MetricsServer | undefined> {
  const { host, port } = options;
  try {
    const server = await serveMetrics({ ...options, registry: createWorkerMetrics() });
    logger.info({ url: server.url }, 'metrics server listening');
    return server;
  } catch (err) {
    logger.error({ err, host, port }, 'could not start the metrics server');
    return undefined;
  }
}
