import { once } from 'node:events';
import { createServer, type Server } from 'node:net';

const handedOut = new Set<number>();

/**
 * A currently free TCP port on loopback, below the system's ephemeral range: no outgoing connection can take it before the
 * server binds it.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = 10_000 + Math.floor(Math.random() * 22_000);
    if (handedOut.has(port)) continue;
    handedOut.add(port);
    if (await canBind(port)) return port;
  }
}

/** Has `server` listen on a free port, and returns the port. */
export async function listenOnFreePort(server: Server, host = '127.0.0.1'): Promise<number> {
  for (;;) {
    const port = await freePort();
    try {
      await once(server.listen(port, host), 'listening');
      return port;
    } catch (error) {
      // another process was faster
      if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw error;
    }
  }
}

function canBind(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
  });
}
