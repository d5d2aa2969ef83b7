import { createServer } from 'node:net';

const handedOut = new Set<number>();

/**
 * A TCP port that is free on loopback now. Taken from below the system's ephemeral range, so that no outgoing
 * connection grabs it between here and the server's own bind.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = 10_000 + Math.floor(Math.random() * 22_000);
    if (handedOut.has(port)) continue;
    handedOut.add(port);
    if (await canBind(port)) return port;
  }
}

function canBind(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
  });
}
