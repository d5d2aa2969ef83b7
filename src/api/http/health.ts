import type { FastifyInstance } from 'fastify';
import type pg from 'pg';
import { withDeadline } from '../../async.ts';
import { Health } from '../../contract/installation.ts';
import { VERSION } from '../../runtime/version.ts';
import { type Readiness, readReadiness } from '../../db/coordination/readiness.ts';
import { errorResponses } from './error-responses.ts';

export interface HealthDeps {
  pool: pg.Pool;
  /** resolves when Temporal responds, else rejects */
  pingTemporal(): Promise<void>;
}

/** A dependency that takes longer counts as unreachable, ms. */
const DEADLINE_MS = 2_000;

/**
 * Serves `GET /health` (this process is alive) and `GET /ready` (Postgres and Temporal respond; else 503 names which do not). It also
 * says whether a worker makes changes, and how many mailboxes are in sync: reads need neither.
 */
export function serveHealth(app: FastifyInstance, { pool, pingTemporal }: HealthDeps): void {
  app.get(
    '/health',
    {
      schema: {
        tags: ['Installation'],
        operationId: 'getHealth',
        summary: 'Get the health and version of the API process',
        description:
          'Needs no key, and succeeds while the process runs. `GET /ready` says whether Postgres and Temporal respond.',
        security: [],
        response: {
          200: { description: 'The process is alive', content: { 'application/json': { schema: Health } } },
          ...errorResponses('invalid_parameters', 'forbidden', 'unexpected_error', 'service_unavailable'),
        },
      },
    },
    () => ({ status: 'ok', version: VERSION }),
  );
  app.get('/ready', { schema: { hide: true } }, async (_request, reply) => {
    const [stored, temporal] = await Promise.all([
      inTime(readReadiness(pool)),
      inTime(pingTemporal().then(() => true)),
    ]);
    const ready = stored !== undefined && temporal !== undefined;
    return reply.code(ready ? 200 : 503).send({
      status: ready ? 'ready' : 'not_ready',
      postgres: stored ? 'ok' : 'unreachable',
      temporal: temporal ? 'ok' : 'unreachable',
      ...(stored ? shown(stored, ready) : {}),
    });
  });
}

function shown({ hasWorker, mailboxes, inSync }: Readiness, ready: boolean): Record<string, string> {
  return {
    writes: !ready ? 'unavailable' : hasWorker ? 'ok' : 'unavailable: no worker',
    mailboxes: inSync === mailboxes ? 'in sync' : `catching up: ${inSync} of ${mailboxes} mailboxes`,
  };
}

/** Undefined: it failed, or came too late. */
function inTime<T>(ping: Promise<T>): Promise<T | undefined> {
  return withDeadline(DEADLINE_MS, ping, () => new Error('no response in time')).catch(() => undefined);
}
