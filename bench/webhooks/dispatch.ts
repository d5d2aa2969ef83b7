import { newId } from '../../src/new-id.ts';
import { waitFor } from '../../test/helpers/assert/wait.ts';
import { type Bounds, type Figures, percentile } from '../figures.ts';
import { ownProcessHook } from '../ground/own-process-hook.ts';
import { loginTimes } from '../logins.ts';
import { byPart, cpuMsOf, cpuOfParts, processTree } from '../ground/process-tree.ts';
import { type Bench, watchedMailboxes } from '../ground/setup.ts';
import {
  type Answer,
  DATA_BYTES,
  endpoint,
  type Ground,
  happen,
  hook,
  nextSequence,
  ok,
  outOfOrder,
  prepare,
  signAndPost,
  steadily,
} from '../ground/webhook-ground.ts';

const LARGE = Buffer.alloc(10_000_000);
const BAD: readonly Answer[] = [
  (response) => void response.writeHead(500).end(),
  () => {},
  (response) => void setTimeout(() => response.writeHead(200).end(), 25_000).unref(),
  (response) => void response.writeHead(429).end(),
  (_, request) => void request.socket.destroy(),
  (response) => void response.writeHead(200).end(LARGE),
  (response) => void setTimeout(() => response.writeHead(503).end(), 5_000).unref(),
];
const DEAD = 'http://127.0.0.1:9/';

const ISOLATION_S = 30;
const MAILBOXES = 10;
const PER_SECOND = 10;

/** Times in ms from commit to receipt of events at one healthy endpoint, with `count` bad ones beside it. */
async function besideBad(bench: Bench, ground: Ground, count: number): Promise<number[]> {
  const healthy = await ownProcessHook();
  const bad = await Promise.all(Array.from({ length: count }, (_, n) => hook(BAD[n % BAD.length] as Answer)));
  const urls = [healthy.url, ...bad.map(({ url }, n) => (n % 8 === 7 ? DEAD : url))];
  const ids = await Promise.all(urls.map(async (url) => (await endpoint(bench, url)).id));
  const commits: number[] = [];
  const first = await nextSequence(ground);
  const began = Date.now();
  for (let n = 0; n < ISOLATION_S * PER_SECOND; n++) {
    const at = began + (n * 1000) / PER_SECOND;
    await new Promise((resolve) => setTimeout(resolve, Math.max(0, at - Date.now())));
    commits.push(await happen(ground, [newId('email')]));
  }
  const isComplete = async () => (await healthy.received()).size === commits.length;
  await waitFor(isComplete, { timeoutMs: 60_000, everyMs: 200, what: 'all events' }).catch(() => {});
  const received = await healthy.received();
  const times = commits.map((at, n) => (received.get(first + n) ?? Date.now()) - at);
  for (const id of ids) await bench.api.request('DELETE', `/webhooks/endpoints/${id}`);
  // in the order of their ids, and none that is getting a result: the product writes them as well
  await ground.database.pool.query(`with left_over as (
      delete from pending_deliveries where delivery_id in
        (select delivery_id from pending_deliveries order by delivery_id for update skip locked)
      returning delivery_id
    ) update deliveries set status = 'skipped' where id in (select delivery_id from left_over)`);
  await Promise.all([healthy, ...bad].map((each) => each.close()));
  return times;
}

/** Attempts and workflow executions so far. */
async function callsAndRuns({ database }: Ground): Promise<Record<string, number>> {
  const { rows } = await database.pool.query<Record<string, number>>(
    `select (select count(*) from delivery_attempts)::int as attempts,
      (select count(distinct workflow_id) from deliveries)::int as runs`,
  );
  return rows[0] ?? {};
}

/** A healthy endpoint beside endpoints that are dead, hang, are slow, fail, hang up, or answer with 10 MB. */
export const webhookIsolation = {
  title: `commit to receipt in ms at a healthy endpoint beside bad ones, ${PER_SECOND} events/s to each`,
  bounds: {
    'p50 with 3, times alone': { most: 1.2 },
    'p99 with 3, times alone': { most: 1.5 },
    'p50 with 8, times alone': { most: 1.2 },
    'p99 with 8, times alone': { most: 1.5 },
    'p50 with 45, times alone': { most: 1.2 },
    'p99 with 45, times alone': { most: 1.5 },
    'mailboxes that were watched anew': { most: 0 },
  } satisfies Bounds,
  prepare: async (bench: Bench): Promise<Ground> => {
    await watchedMailboxes(bench, MAILBOXES);
    return prepare(bench);
  },
  round: async (bench: Bench, ground: Ground): Promise<Figures> => {
    const figures: Figures = {};
    // the first seconds of a process are slower: exclude them from all cases
    await besideBad(bench, ground, 0);
    // a watch that misses its heartbeats moves to another worker, which logs in
    const logins = (await loginTimes(bench)).length;
    for (const count of (process.env.BENCH_BAD ?? '0,3,8,45').split(',').map(Number)) {
      const before = byPart(processTree(bench.pid));
      const made = await callsAndRuns(ground);
      const times = await besideBad(bench, ground, count);
      figures[`p50 with ${count}`] = percentile(times, 0.5);
      figures[`p99 with ${count}`] = percentile(times, 0.99);
      for (const [part, { cpuMs }] of byPart(processTree(bench.pid))) {
        figures[`  CPU s of ${part} with ${count}`] = (cpuMs - (before.get(part)?.cpuMs ?? 0)) / 1000;
      }
      for (const [what, n] of Object.entries(await callsAndRuns(ground))) {
        figures[`  ${what} with ${count}`] = n - (made[what] ?? 0);
      }
      if (count === 0) continue;
      for (const part of ['p50', 'p99']) {
        figures[`${part} with ${count}, times alone`] =
          (figures[`${part} with ${count}`] ?? 0) / (figures[`${part} with 0`] ?? 1);
      }
    }
    figures['mailboxes that were watched anew'] = (await loginTimes(bench)).length - logins;
    return figures;
  },
};

const RATE_EVENTS = 24_000;
const RATE_EVENTS_SHORT = 4_000;
const OBJECTS = 1_000;
const STEADY_S = 30;
const STEADY_PER_SECOND = 50;

/** Deliveries a second while there is a backlog, and the time from commit to receipt at a steady rate. */
export const webhookRate = {
  title: `deliveries of events of ${DATA_BYTES} bytes to one endpoint`,
  bounds: {
    'deliveries/s': { least: 1_000 },
    'steady p50': { most: 100 },
    'steady p99': { most: 1_000 },
    lost: { most: 0 },
    'out of order': { most: 0 },
  } satisfies Bounds,
  limits: { 'deliveries/s': 'one process that signs and posts, /s' },
  prepare,
  round: async (bench: Bench, ground: Ground): Promise<Figures> => {
    const receiver = await hook(ok);
    const { id } = await endpoint(bench, receiver.url);
    const objects = Array.from({ length: OBJECTS }, () => newId('email'));
    const count = bench.short ? RATE_EVENTS_SHORT : RATE_EVENTS;
    const before = byPart(processTree(bench.pid));
    const began = Date.now();
    for (let n = 0; n < count; n += 500) await happen(ground, objects.slice(n % OBJECTS, (n % OBJECTS) + 500));
    await waitFor(() => receiver.received.size >= count, { timeoutMs: 300_000, what: 'the backlog' });
    const last = Math.max(...receiver.received.values());
    const cpu = cpuOfParts('CPU ms per delivery', { before, after: byPart(processTree(bench.pid)), count });
    const first = Math.min(...receiver.received.keys());
    const order = outOfOrder(receiver, (sequence) => objects[(sequence - first) % OBJECTS] ?? '');
    const steady = await steadily(ground, receiver, { seconds: STEADY_S, perSecond: STEADY_PER_SECOND });
    const [lost, calledTwice] = [
      count - receiver.received.size + STEADY_S * STEADY_PER_SECOND,
      receiver.calls - receiver.received.size,
    ];
    const other = await ownProcessHook();
    const bare = await signAndPost(other.url);
    await other.close();
    await bench.api.request('DELETE', `/webhooks/endpoints/${id}`);
    await receiver.close();
    return {
      'deliveries/s': (count / (last - began)) * 1000,
      '  one process that signs and posts, /s': bare,
      ...cpu,
      lost,
      'called twice': calledTwice,
      'out of order': order,
      'steady p50': percentile(steady, 0.5),
      'steady p99': percentile(steady, 0.99),
    };
  },
};

const WAITING = 50_000;

/** A dead endpoint with a backlog: its cost, and the order after its recovery. */
export const webhookOutage = {
  title: `an endpoint that is dead while ${WAITING} events wait for it, and comes back`,
  bounds: { 'live runs, most': { most: 200 }, lost: { most: 0 }, 'out of order': { most: 0 } } satisfies Bounds,
  prepare,
  round: async (bench: Bench, ground: Ground): Promise<Figures> => {
    let isBack = false;
    const receiver = await hook((response) => void response.writeHead(isBack ? 200 : 503).end());
    const { id } = await endpoint(bench, receiver.url);
    const objects = Array.from({ length: OBJECTS }, () => newId('email'));
    let mostRuns = 0;
    const count = async () => {
      const { rows } = await ground.database.pool.query<{ n: number }>(
        `select count(distinct workflow_id)::int as n from pending_deliveries`,
      );
      mostRuns = Math.max(mostRuns, rows[0]?.n ?? 0);
    };
    for (let n = 0; n < WAITING; n += 500) {
      await happen(ground, objects.slice(n % OBJECTS, (n % OBJECTS) + 500));
      if (n % 5_000 === 0) await count();
    }
    const callsDead = receiver.calls;
    const cpuBefore = cpuMsOf(bench.pid);
    const restedFrom = Date.now();
    await new Promise((resolve) => setTimeout(resolve, 20_000));
    const cpuAtRest = (cpuMsOf(bench.pid) - cpuBefore) / (Date.now() - restedFrom);
    await count();
    isBack = true;
    const backAt = Date.now();
    await waitFor(() => receiver.received.size >= WAITING, { timeoutMs: 900_000, what: 'all that waited' });
    const [first, ...rest] = [...receiver.received.values()];
    const start = Math.min(...receiver.received.keys());
    const order = outOfOrder(receiver, (sequence) => String((sequence - start) % OBJECTS));
    await bench.api.request('DELETE', `/webhooks/endpoints/${id}`);
    await receiver.close();
    return {
      'calls while dead': callsDead,
      'live runs, most': mostRuns,
      'CPU at rest, cores': cpuAtRest,
      'first after its return, s': ((first ?? 0) - backAt) / 1000,
      'deliveries/s after that': (rest.length / ((rest.at(-1) ?? 0) - (first ?? 0))) * 1000,
      lost: WAITING - receiver.received.size,
      'out of order': order,
    };
  },
};
