import { Runtime } from '@temporalio/worker';
import type { LogLevel, LogMetadata } from '@temporalio/common';
import type { Logger } from '../logger.ts';

/** What of a message's attributes is logged; others could quote a failure's text. */
const LOGGED = ['taskQueue', 'workflowType', 'workflowId', 'runId', 'activityType', 'attempt', 'sdkComponent'];

/** A queue without workflows is meant to have none; why a run failed is told by whoever made it fail. */
const EXPECTED = /^(No workflows registered|Workflow failed$)/;

/**
 * Installs the SDK's runtime, once per process and before any connection: its messages go to our logger, and signals
 * to end are left to the process.
 */
export function installRuntime(logger: Logger): void {
  const write = (level: LogLevel, message: string, meta: LogMetadata = {}) => {
    if (EXPECTED.test(message)) return;
    const known = LOGGED.flatMap((name) => (meta[name] === undefined ? [] : [[name, String(meta[name])]]));
    const error: unknown = meta['error'];
    logger[PINO_LEVELS[level]](
      { ...(Object.fromEntries(known) as object), ...(error === undefined ? {} : { err: error }) },
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
    telemetryOptions: { logging: { filter: { core: 'WARN', other: 'ERROR' }, forward: {} } },
  });
}

/** The SDK tells every start and end of a worker at INFO. */
const PINO_LEVELS = { TRACE: 'trace', DEBUG: 'trace', INFO: 'debug', WARN: 'warn', ERROR: 'error' } as const;
