import { createServer } from 'node:net';
import { StartFailure } from './failure.ts';

/** The output of Postgres and Temporal when another process took their port after it was found free. */
const TAKEN = /could not create any TCP\/IP sockets|address already in use/i;
const ATTEMPTS = 5;

/**
 * Starts a server on ports that were found free just before; when another process was faster, calls `start` again, which
 * must look for others.
 */
export async function retryWhenPortTaken<T>(start: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await start();
    } catch (error) {
      if (attempt === ATTEMPTS || !(error instanceof StartFailure && TAKEN.test(error.message))) throw error;
    }
  }
}

/** Whether nothing listens on that address and port, and this user may. */
export function isFree(port: number, host = '127.0.0.1'): Promise<boolean> {
  return tryListen(port, host).then((code) => code === undefined);
}

/** Listens for an instant; returns the error code (EADDRINUSE, EACCES, EADDRNOTAVAIL, …) or undefined. */
export function tryListen(port: number, host: string): Promise<string | undefined> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? 'EUNKNOWN'));
    server.listen({ port, host, exclusive: true }, () => server.close(() => resolve(undefined)));
  });
}

/**
 * The first free loopback port from `first` on. Callers pass ports below the ephemeral range: no outgoing connection
 * takes the port while a dead server is restarted.
 */
export async function firstFreePort(first: number, taken: readonly number[] = []): Promise<number> {
  for (let port = first; port <= 65_535; port++) {
    if (!taken.includes(port) && (await isFree(port))) return port;
  }
  throw new Error(`no free port from ${first} on`);
}
