import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import type { Figures } from '../figures.ts';

export interface Request {
  url: string;
  headers?: Record<string, string>;
}

const MEASURED_MS = 3_000;
const WARM_UP_MS = 500;

/**
 * Responses a second to a number of parallel callers, each of which waits for a response before its next request. They read
 * only the length, which leaves the machine to the server. Throws on any status but 200.
 */
export async function rateOf(request: Request, callers: number): Promise<number> {
  await countWithin(request, callers, WARM_UP_MS);
  return (await countWithin(request, callers, MEASURED_MS)) / (MEASURED_MS / 1000);
}

/** The rates of one caller and of eight, of the product and of a bare server that sends the same bytes. */
export async function ratesOf(name: string, ours: Request, bare: Request): Promise<Figures> {
  const figures: Figures = {};
  for (const callers of [1, 8]) {
    figures[`${name}, ${callers} at a time, /s`] = await rateOf(ours, callers);
    figures[`  a bare route: ${name}, ${callers} at a time, /s`] = await rateOf(bare, callers);
  }
  return figures;
}

async function countWithin(request: Request, callers: number, ms: number): Promise<number> {
  const until = performance.now() + ms;
  const counts = await Promise.all(Array.from({ length: callers }, () => call(request, until)));
  return counts.reduce((sum, count) => sum + count, 0);
}

/** Sends requests over one connection until the time `until`; returns the number of responses. */
async function call({ url, headers = {} }: Request, until: number): Promise<number> {
  const { hostname, port, pathname, search } = new URL(url);
  const head = Object.entries({ Host: `${hostname}:${port}`, ...headers }).map(
    ([name, value]) => `${name}: ${value}\r\n`,
  );
  const text = `GET ${pathname}${search} HTTP/1.1\r\n${head.join('')}\r\n`;
  const socket = connect({ port: Number(port), host: hostname, noDelay: true });
  await once(socket, 'connect');
  try {
    let count = 0;
    while (performance.now() < until) {
      socket.write(text);
      await response(socket, url);
      count += 1;
    }
    return count;
  } finally {
    socket.destroy();
  }
}

/** Reads one response with a Content-Length to its end. */
function response(socket: Socket, url: string): Promise<void> {
  return new Promise((resolve, reject) => {
    let left: number | undefined;
    let head = '';
    const end = (error?: Error) => {
      socket.off('data', read).off('close', gone);
      if (error) reject(error);
      else resolve();
    };
    const gone = () => end(new Error(`${url}: the connection ended`));
    const read = (chunk: Buffer) => {
      if (left === undefined) {
        head += chunk.toString('latin1');
        const blank = head.indexOf('\r\n\r\n');
        if (blank < 0) return;
        const length = /^content-length: (\d+)/im.exec(head)?.[1];
        if (!head.startsWith('HTTP/1.1 200') || length === undefined) return end(new Error(`${url}: ${head}`));
        left = Number(length) - (head.length - blank - 4);
      } else left -= chunk.length;
      if (left === 0) end();
    };
    socket.on('data', read).on('close', gone);
  });
}
