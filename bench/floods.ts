import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { performance } from 'node:perf_hooks';
import { randomBytes } from 'node:crypto';
import { type Bounds, type Figures, percentile } from './figures.ts';
import { byPart, processTree } from './ground/process-tree.ts';
import type { Bench } from './ground/setup.ts';

/** Requests that are measured beside each flood, in sequence. */
const MEASURED = 400;
const WRONG_PER_S = 2_000;
const WRONG_SOCKETS = 20;
const TICK_MS = 10;

/** Load beside the measured requests; returns a function that stops it. */
type Flood = (bench: Bench) => Promise<() => void>;

/** The time of a request with a valid key, ms. */
async function p50(bench: Bench): Promise<number> {
  const times: number[] = [];
  for (let index = -50; index < MEASURED; index++) {
    const began = performance.now();
    const response = await bench.api.request('GET', '/accounts?limit=1');
    const text = await response.text();
    if (!response.ok) throw new Error(`a request with a right key was answered ${response.status} ${text}`);
    if (index >= 0) times.push(performance.now() - began);
  }
  return percentile(times, 0.5);
}

async function open({ api }: Bench, count: number, text: string): Promise<Socket[]> {
  const { hostname, port } = new URL(api.base);
  const sockets: Socket[] = [];
  for (let index = 0; index < count; index++) {
    const socket = connect(Number(port), hostname).on('error', () => {});
    await once(socket, 'connect');
    socket.resume();
    if (text) socket.write(text);
    sockets.push(socket);
  }
  return sockets;
}

const waiting =
  (count: number, text: (bench: Bench) => string): Flood =>
  async (bench) => {
    const sockets = await open(bench, count, text(bench));
    return () => {
      const left = sockets.filter((socket) => !socket.closed).length;
      for (const socket of sockets) socket.destroy();
      console.log(`of ${count} connections ${left} were open at the end`);
    };
  };

function cpuOf(bench: Bench): { server: number; postgres: number } {
  const parts = byPart(processTree(bench.pid));
  return { server: parts.get('server')?.cpuMs ?? 0, postgres: parts.get('postgres')?.cpuMs ?? 0 };
}

/** Requests without a pause, each with another wrong key. */
const wrongKeys: Flood = async (bench) => {
  const sockets = await open(bench, WRONG_SOCKETS, '');
  const began = performance.now();
  const before = cpuOf(bench);
  let sent = 0;
  let answered = 0;
  for (const socket of sockets) {
    socket.on('data', (bytes: Buffer) => (answered += bytes.toString('latin1').split('HTTP/1.1 ').length - 1));
  }
  const timer = setInterval(() => {
    const due = ((performance.now() - began) / 1_000) * WRONG_PER_S;
    for (; sent < due; sent++) {
      const key = `mbx_${randomBytes(6).toString('hex')}_${randomBytes(32).toString('hex')}`;
      sockets[sent % WRONG_SOCKETS]?.write(`GET /api/v1/accounts HTTP/1.1\r\nHost: x\r\nX-API-KEY: ${key}\r\n\r\n`);
    }
  }, TICK_MS);
  return () => {
    clearInterval(timer);
    const seconds = (performance.now() - began) / 1_000;
    const after = cpuOf(bench);
    const each = (part: 'server' | 'postgres') => `${((after[part] - before[part]) / answered).toFixed(2)} ms`;
    const rates = [sent, answered].map((count) => Math.round(count / seconds));
    console.log(
      `${rates[0]} wrong keys/s, ${rates[1]} answered; CPU of each: API ${each('server')}, Postgres ${each('postgres')}`,
    );
    for (const socket of sockets) socket.destroy();
  };
};

const FLOODS: Record<string, Flood> = {
  '2,000 wrong keys/s': wrongKeys,
  '500 idle connections': waiting(500, () => ''),
  '500 half headers': waiting(500, () => 'GET /api/v1/accounts HTTP/1.1\r\nHost: x\r\nX-API-'),
  '1,000 half bodies': waiting(
    1_000,
    ({ api }) =>
      `POST /api/v1/api-keys HTTP/1.1\r\nHost: x\r\nX-API-KEY: ${api.key}\r\nContent-Type: application/json\r\n` +
      `Content-Length: 1000\r\n\r\n{"name":"`,
  ),
};

/** A caller beside hostile ones: the p50 of its requests, as a multiple of the p50 without them. */
export const floods = {
  title: 'requests with a right key beside floods: p50 as a multiple of the p50 without',
  bounds: {
    '2,000 wrong keys/s': { most: 2 },
    '500 idle connections': { most: 1.25 },
    '500 half headers': { most: 1.25 },
    '1,000 half bodies': { most: 1.25 },
  } satisfies Bounds,
  prepare: async () => undefined,
  round: async (bench: Bench): Promise<Figures> => {
    const figures: Figures = {};
    for (const [name, flood] of Object.entries(FLOODS)) {
      const before = await p50(bench);
      console.log(`${name}: p50 before ${before.toFixed(1)} ms`);
      const end = await flood(bench);
      const during = await p50(bench).finally(end);
      console.log(`${name}: p50 during ${during.toFixed(1)} ms`);
      figures[name] = during / before;
    }
    return figures;
  },
};
