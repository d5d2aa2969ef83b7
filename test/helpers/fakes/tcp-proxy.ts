import { createConnection, createServer, type Socket } from 'node:net';
import { listenOnFreePort } from '../servers/free-port.ts';

/** A stretch of network between the product and a mail server, which the test can break. */
export interface TcpProxy {
  port: number;
  /** connections that are open now */
  open(): number;
  /** Ends every connection and refuses new ones. */
  cut(): void;
  /** Open connections no longer carry data and never close: the other side is lost silently. */
  freeze(): void;
  /** Open connections carry 64 KiB to the product in so many ms: a slow line. */
  slow(ms: number): void;
  /** Freezes open connections, and accepts new ones without a word. */
  silence(): void;
  /** Ends a cut or a silence: new connections are forwarded. */
  restore(): void;
  close(): Promise<void>;
}

/** Forwards a free port, on loopback unless another address of this machine is given, to `target` on loopback. */
export async function startTcpProxy(target: number, host = '127.0.0.1'): Promise<TcpProxy> {
  const pairs = new Set<Socket[]>();
  let [refusing, silent] = [false, false];
  const server = createServer((inside) => {
    if (refusing) {
      inside.resetAndDestroy();
      return;
    }
    if (silent) {
      pairs.add([inside.on('error', () => {})]);
      return;
    }
    const outside = createConnection({ port: target, host: '127.0.0.1' });
    const pair = [inside, outside];
    pairs.add(pair);
    forward(inside, outside);
    forward(outside, inside);
    const end = () => {
      pairs.delete(pair);
      pair.forEach((socket) => socket.destroy());
    };
    for (const socket of pair) socket.setNoDelay(true).on('error', end).on('close', end);
  });
  const port = await listenOnFreePort(server, host);
  const freeze = () => {
    for (const pair of pairs) pair.forEach((socket) => socket.pause());
  };
  const cut = () => {
    refusing = true;
    for (const pair of pairs) pair.forEach((socket) => socket.resetAndDestroy());
    pairs.clear();
  };
  return {
    port,
    open: () => pairs.size,
    cut,
    freeze,
    slow: (ms) => {
      for (const [, outside] of pairs) {
        outside?.on('data', () => {
          outside.pause();
          setTimeout(() => outside.resume(), ms);
        });
      }
    },
    silence: () => {
      silent = true;
      freeze();
    },
    restore: () => {
      [refusing, silent] = [false, false];
    },
    close: () => {
      cut();
      return new Promise((resolve) => server.close(() => resolve()));
    },
  };
}

function forward(from: Socket, to: Socket): void {
  from.on('data', (chunk) => to.write(chunk));
  from.on('end', () => to.end());
}
