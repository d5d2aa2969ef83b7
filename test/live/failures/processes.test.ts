import { execFileSync } from 'node:child_process';
import { chmod, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import pg from 'pg';
import { commandOf, handleOf } from '../../../src/runtime/process-handle.ts';
import { freePort } from '../../helpers/servers/free-port.ts';
import { type Started, start, untilGone } from '../../helpers/product/start.ts';
import { waitFor } from '../../helpers/assert/wait.ts';

/** Several worker and API processes on one machine: see docs/settings.md, WORKERS and SERVERS. */

let home: string;
let run: Started;
let url: string;
let key: string;

beforeAll(async () => {
  home = await mkdtemp(join(tmpdir(), 'processes-'));
  // as root, Postgres runs as a user who has to come through
  await chmod(home, 0o711);
  const port = await freePort();
  url = `http://127.0.0.1:${port}`;
  const ports = { TEMPORAL_UI_PORT: String(await freePort()), WORKER_METRICS_PORT: String(await freePort()) };
  run = start(join(home, 'data'), { PORT: String(port), ...ports, WORKERS: '2', SERVERS: '3' }, 'dist/start.js');
  await run.ready(120_000);
  key = (await readFile(join(home, 'data', 'bootstrap-api-key'), 'utf8')).trim();
}, 150_000);

afterAll(async () => {
  const handles = run.handles();
  run.child.kill('SIGTERM');
  expect(await run.ended()).toBe(0);
  await untilGone(handles, 10_000);
  await rm(home, { recursive: true, force: true });
}, 60_000);

/** The API processes below the one that listens. */
function serving(): number[] {
  const leader = run.handles().find(({ pid }) => commandOf(pid).includes('dist/server.js'))?.pid;
  const found = execFileSync('ps', ['-o', 'pid=', '--ppid', String(leader)], { encoding: 'utf8' });
  return found.trim().split(/\s+/).map(Number);
}

const call = () =>
  fetch(`${url}/api/v1/api-keys`, { headers: { 'X-API-KEY': key, Connection: 'close' } }).then(({ status }) => status);

/** Calls of that route, as Prometheus would get them. */
async function counted(): Promise<number> {
  const text = await (await fetch(`${url}/metrics`, { headers: { Connection: 'close' } })).text();
  const lines = text.split('\n').filter((line) => line.startsWith('http_request_duration_seconds_count'));
  return lines
    .filter((line) => line.includes('route="/api/v1/api-keys"'))
    .reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0);
}

it('calls reach all API processes, and a scrape counts them together', async () => {
  expect(serving()).toHaveLength(3);
  for (let n = 0; n < 30; n++) expect(await call()).toBe(200);
  for (let n = 0; n < 6; n++) expect(await counted()).toBe(30);
});

it('an API process that dies is restarted, and the others keep running', async () => {
  const before = serving();
  process.kill(before[0] as number, 'SIGKILL');
  await waitFor(
    () => {
      const now = serving();
      return now.length === 3 && !now.includes(before[0] as number);
    },
    { timeoutMs: 60_000, what: () => `another process; there are ${serving().join()}` },
  );
  for (let n = 0; n < 10; n++) expect(await call()).toBe(200);
}, 90_000);

it('both workers announce themselves, and each serves its metrics', async () => {
  const lines = run.output().match(/http:\/\/127\.0\.0\.1:\d+\/metrics/g) ?? [];
  // of the API, and of each worker
  expect(lines).toHaveLength(3);
  for (const line of lines) expect((await fetch(line)).status).toBe(200);
  const postmaster = (await readFile(join(home, 'data', 'postgres', 'postmaster.pid'), 'utf8')).split('\n');
  const password = (await readFile(join(home, 'data', 'postgres-password'), 'utf8')).trim();
  const client = new pg.Client(`postgresql://mailbox:${password}@127.0.0.1:${postmaster[3]}/mailbox`);
  await client.connect();
  const { rows } = await client.query(`select 1 from workers where seen_at > now() - interval '10 seconds'`);
  await client.end();
  expect(rows).toHaveLength(2);
});

it('API processes exit with the listening one, even if that is killed', async () => {
  const children = serving().flatMap((pid) => handleOf(pid) ?? []);
  expect(children).toHaveLength(3);
  const leader = run.handles().find(({ pid }) => commandOf(pid).includes('dist/server.js'));
  process.kill(leader?.pid as number, 'SIGKILL');
  await untilGone(children, 20_000);
  await waitFor(() => run.output().includes('server runs again'), { timeoutMs: 60_000, what: run.output });
  expect(await call()).toBe(200);
}, 120_000);
