import type { FastifyInstance, FastifyReply } from 'fastify';
import { ApiError, errorBody } from '../../contract/errors.ts';

const STOPPING = 'this API process is stopping';

declare module 'fastify' {
  interface FastifyInstance {
    /**
     * Ends the requests of a process that is about to exit, so that each gets a response: those under way have `ms`
     * milliseconds to finish, then they get a 503. New ones get a 503 at once, with `Retry-After`.
     */
    drain(ms: number): Promise<void>;
  }
}

/** Adds `drain`. Call it before routes are added. */
export function serveDraining(app: FastifyInstance): void {
  const open = new Set<FastifyReply>();
  let drained: (() => void) | undefined;
  app.addHook('onRequest', (_request, reply, done) => {
    if (drained) {
      reply.header('Connection', 'close');
      return done(new ApiError('service_unavailable', `${STOPPING}: nothing was done`));
    }
    open.add(reply);
    reply.raw.once('close', () => {
      open.delete(reply);
      if (open.size === 0) drained?.();
    });
    done();
  });
  app.decorate('drain', async (ms) => {
    await new Promise<void>((resolve) => {
      drained = resolve;
      setTimeout(resolve, ms);
      for (const reply of open) if (isEventStream(reply)) reply.raw.destroy();
      if (open.size === 0) resolve();
    });
    for (const reply of open) if (!reply.sent) refuse(reply);
    // until the responses are written
    await new Promise<void>((resolve) => setImmediate(resolve));
  });
}

/** It never ends, and its client connects again. */
function isEventStream(reply: FastifyReply): boolean {
  return String(reply.getHeader('content-type') ?? '').startsWith('text/event-stream');
}

function refuse(reply: FastifyReply): void {
  const body = errorBody('service_unavailable', `${STOPPING}: it may still be done`, { requestId: reply.request.id });
  void reply.code(body.status).header('Connection', 'close').header('Retry-After', '5').send(body);
}
