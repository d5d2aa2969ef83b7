import { createConnection, createServer, type Socket } from 'node:net';
import { listenOnFreePort } from '../servers/free-port.ts';

/** A piece of a conversation in transit; forwarded once `see` has finished. */
export interface Piece {
  from: 'client' | 'server';
  text: string;
}

export interface TappedProxy {
  port: number;
  close(): Promise<void>;
}

/** Forwards a free loopback port to `target`; passes each piece, in either direction, to `see` before forwarding it. */
export async function startTappedProxy(
  target: number,
  see: (piece: Piece) => Promise<void> | void,
): Promise<TappedProxy> {
  const sockets = new Set<Socket>();
  const server = createServer((inside) => {
    const outside = createConnection({ port: target, host: '127.0.0.1' });
    pass('client', inside, outside);
    pass('server', outside, inside);
    for (const socket of [inside, outside]) {
      sockets.add(socket);
      socket.setNoDelay(true).on('close', () => sockets.delete(socket));
    }
  });
  const pass = (side: Piece['from'], from: Socket, to: Socket) => {
    const end = () => {
      from.destroy();
      to.destroy();
    };
    from.on('error', end).on('close', end);
    from.on('data', (chunk: Buffer) => {
      from.pause();
      void Promise.resolve(see({ from: side, text: chunk.toString('latin1') })).then(() => {
        if (!to.destroyed) to.write(chunk);
        from.resume();
      });
    });
  };
  const port = await listenOnFreePort(server);
  return {
    port,
    close: () => {
      for (const socket of sockets) socket.destroy();
      return new Promise((resolve) => server.close(() => resolve()));
    },
  };
}
