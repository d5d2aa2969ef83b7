import { Runtime } from '@temporalio/worker';
import type { LogLevel, LogMetadata } from '@temporalio/common';
import type { Logger } from '../runtime/logger.ts';

/** The attributes of a message that are logged; others could quote a failure's text. */
const LOGGED = ['taskQueue', 'workflowType', 'workflowId', 'runId', 'activityType', 'attempt', 'sdkComponent'];

/** Some queues have no workflows on purpose; the reason of a failure is logged where it occurred. */
const EXPECTED = /^(No workflows registered|Workflow failed$)/;

/**
 * Installs the SDK's runtime, once per process and before any connection: its messages go to our logger, and the process
 * handles signals itself. Its metrics are served at `metricsAddress` (host:port), if given.
 */
export function installRuntime(logger: Logger, metricsAddress?: string): void {
  const write = (level: LogLevel, message: string, meta: LogMetadata = {}) => {
    if (EXPECTED.test(message)) return;
    const attributes = LOGGED.flatMap((name) => (meta[name] === undefined ? [] : [[name, String(meta[name])]]));
    const error: unknown = meta['error'];
    logger[PINO_LEVELS[level]](
      { ...(Object.fromEntries(attributes) as object), ...(error === undefined ? {} : { err: error }) },
      message,
    );
  };
  Runtime.install({
    shutdownSignals: [],
    logger: {
      log: write,
      trace: (message, meta) => write('TRACE', message, meta),
      debug: (message, meta) => write('DEBUG', message, meta),
      info: (message, meta) => write('INFO', message, meta),
      warn: (message, meta) => write('WARN', message, meta),
      error: (message, meta) => write('ERROR', message, meta),
    },
    telemetryOptions: {
      logging: { filter: { core: 'WARN', other: 'ERROR' }, forward: {} },
      ...(metricsAddress === undefined ? {} : { metrics: { prometheus: { bindAddress: metricsAddress, ...NAMES } } }),
    },
  });
}

/** Names as Prometheus recommends them. */
const NAMES = { countersTotalSuffix: true, unitSuffix: true, useSecondsForDurations: true } as const;

/** The SDK logs every start and end of a worker at INFO. */
const PINO_LEVELS = { TRACE: 'trace', DEBUG: 'trace', INFO: 'debug', WARN: 'warn', ERROR: 'error' } as const;
