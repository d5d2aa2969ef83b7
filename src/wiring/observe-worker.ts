import type { Config } from '../config/config.ts';
import type { Logger } from '../runtime/logger.ts';
import { freeLoopbackPort, type MetricsServer, serveMetrics } from '../runtime/metrics/serve.ts';
import { createWorkerMetrics } from '../runtime/metrics/worker-metrics.ts';
import type { Tracing } from '../runtime/tracing.ts';
import { installRuntime } from '../temporal/runtime.ts';

/** Metrics and traces of a worker process, as far as the settings ask for them. */
export interface Observed {
  tracing: Tracing | undefined;
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
  const metrics = workerMetrics && (await startMetrics(workerMetrics, logger, sdkAddress));
  return {
    tracing,
    async close() {
      await metrics?.close();
      if (tracing) await tracing.close().catch((err: unknown) => logger.warn({ err }, 'could not send the last spans'));
    },
  };
}

/** Starts the metrics; a worker also runs without them. */
async function startMetrics(
  at: NonNullable<Config['workerMetrics']>,
  logger: Logger,
  sdkAddress: string | undefined,
): Promise<MetricsServer | undefined> {
  try {
    const server = await serveMetrics({
      ...at,
      registry: createWorkerMetrics(),
      ...(sdkAddress ? { sdkAddress } : {}),
    });
    logger.info({ url: server.url }, 'metrics server listening');
    return server;
  } catch (err) {
    logger.error({ err, ...at }, 'could not start the metrics server');
    return undefined;
  }
}
