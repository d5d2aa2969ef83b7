import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import type { Figures } from '../figures.ts';

export interface Request {
  url: string;
  headers?: Record<string, string>;
}

export const MEASURED_MS = 3_000;
export const WARM_UP_MS = 500;

/**
 * The time of each of a number of calls in sequence by one caller, ms; those that warm up have negative indexes and do not
 * count. No call begins after `atMostMs`. Throws on a response that `isExpected` refuses.
 */
export async function timesOf<T>(
  { requests, warmUp = 20, atMostMs = Infinity }: { requests: number; warmUp?: number; atMostMs?: number },
  call: (index: number) => Promise<Response>,
  isExpected: (body: T) => boolean,
): Promise<number[]> {
  const times: number[] = [];
  const end = performance.now() + atMostMs;
  for (let index = -warmUp; index < requests && performance.now() < end; index++) {
    const began = performance.now();
    const response = await call(index);
    const text = await response.text();
    if (index >= 0) times.push(performance.now() - began);
    if (!response.ok || !isExpected(JSON.parse(text) as T))
      throw new Error(`${response.url}: ${response.status} ${text.slice(0, 200)}`);
  }
  return times;
}

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

/**
 * The responses to parallel callers within `ms`. Several requests, of one server, are made in turns, and each caller begins
 * with another one.
 */
export async function countWithin(request: Request | Request[], callers: number, ms: number): Promise<number> {
  const until = performance.now() + ms;
  const requests = [request].flat();
  const counts = await Promise.all(
    Array.from({ length: callers }, (_, caller) => {
      const first = Math.floor((caller * requests.length) / callers);
      return call([...requests.slice(first), ...requests.slice(0, first)], until);
    }),
  );
  return counts.reduce((sum, count) => sum + count, 0);
}

/** Sends requests over one connection until the time `until`; returns the number of responses. */
async function call(requests: Request[], until: number): Promise<number> {
  const { hostname, port } = new URL((requests[0] as Request).url);
  const texts = requests.map(textOf);
  const socket = connect({ port: Number(port), host: hostname, noDelay: true });
  await once(socket, 'connect');
  try {
    let count = 0;
    while (performance.now() < until) {
      const turn = count % requests.length;
      socket.write(texts[turn] as string);
      await response(socket, (requests[turn] as Request).url);
      count += 1;
    }
    return count;
  } finally {
    socket.destroy();
  }
}

function textOf({ url, headers = {} }: Request): string {
  const { host, pathname, search } = new URL(url);
  const head = Object.entries({ Host: host, ...headers }).map(([name, value]) => `${name}: ${value}\r\n`);
  return `GET ${pathname}${search} HTTP/1.1\r\n${head.join('')}\r\n`;
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
