import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { Readable } from 'node:stream';
import type { FastifyInstance } from 'fastify';

/**
 * Ends the responses that wait for another one of their connection (pipelining, RFC 9112 section 9.3.2) when it closes: Node tells
 * only the response that has the socket, and whatever waits for the `close` of another would be kept for ever. Call it before
 * hooks and routes that wait for that are added.
 */
export function endQueuedResponses(app: FastifyInstance): void {
  const ofSockets = new WeakMap<Socket, Set<ServerResponse>>();
  app.addHook('onRequest', ({ raw: { socket } }, { raw }, done) => {
    const open = ofSockets.get(socket) ?? new Set();
    if (!ofSockets.has(socket)) {
      ofSockets.set(socket, open);
      socket.once('close', () => {
        for (const response of open) if (response.socket === null) response.emit('close');
      });
    }
    open.add(raw);
    raw.once('close', () => open.delete(raw));
    done();
  });
  // what is sent after that would wait for its reader for ever
  app.addHook('onSend', ({ raw: { socket } }, _reply, payload: unknown, done) => {
    if (!socket.destroyed || !(payload instanceof Readable)) return done(null, payload);
    payload.destroy();
    done(null, null);
  });
}
