import type { Replay } from '../../src/contract/runs/replay.ts';
import { newId } from '../../src/new-id.ts';
import { waitFor } from '../../test/helpers/assert/wait.ts';
import { type Bounds, type Figures, percentile } from '../figures.ts';
import { cpuMsOf } from '../ground/process-tree.ts';
import type { Bench } from '../ground/setup.ts';
import {
  endpoint,
  type Ground,
  happen,
  hook,
  nextSequence,
  ok,
  outOfOrder,
  prepare,
} from '../ground/webhook-ground.ts';

const REPLAYED = 20_000;
const REPLAYED_SHORT = 2_000;
const OBJECTS = 1_000;
const LIVE_PER_SECOND = 50;
/** One live event in this many belongs to a replayed object: it waits for the queued events of that object. */
const OF_REPLAYED = 10;
const DEADLINE_MS = 20 * 60_000;

interface LiveEvent {
  sequence: number;
  objectId: string;
  committedAt: number;
  isOfReplayed: boolean;
}

/** Live events at a steady rate, until `stop` is called; which resolves with all of them. */
function happenLive(ground: Ground, replayed: readonly string[]): { stop(): Promise<LiveEvent[]> } {
  const events: LiveEvent[] = [];
  let stopped = false;
  const done = (async () => {
    const first = await nextSequence(ground);
    const began = Date.now();
    for (let n = 0; !stopped; n++) {
      const at = began + (n * 1000) / LIVE_PER_SECOND;
      await new Promise((resolve) => setTimeout(resolve, Math.max(0, at - Date.now())));
      const isOfReplayed = n % OF_REPLAYED === 0;
      const objectId = (isOfReplayed ? replayed[n % replayed.length] : undefined) ?? newId('email');
      events.push({ sequence: first + n, objectId, isOfReplayed, committedAt: await happen(ground, [objectId]) });
    }
  })();
  return {
    async stop() {
      stopped = true;
      await done;
      return events;
    },
  };
}

async function ended(bench: Bench, id: string): Promise<Replay> {
  return waitFor(
    async () => {
      const replay = await bench.api.get<Replay>(`/webhooks/replays/${id}`);
      return replay.status === 'running' ? undefined : replay;
    },
    { timeoutMs: DEADLINE_MS, everyMs: 500, what: 'the end of the replay' },
  );
}

/** Replays the events that an endpoint missed while it was disabled, beside live events. */
export const webhookReplay = {
  title: `a replay to one endpoint, with ${LIVE_PER_SECOND} live events/s`,
  bounds: {
    'live p99, ms': { most: 2_000 },
    lost: { most: 0 },
    'called twice': { most: 0 },
    'out of order': { most: 0 },
  } satisfies Bounds,
  prepare,
  round: async (bench: Bench, ground: Ground): Promise<Figures> => {
    const count = bench.short ? REPLAYED_SHORT : REPLAYED;
    const receiver = await hook(ok);
    const { id } = await endpoint(bench, receiver.url, { enabled: false });
    const objects = Array.from({ length: OBJECTS }, () => newId('email'));
    const first = await nextSequence(ground);
    for (let n = 0; n < count; n += 500) await happen(ground, objects.slice(n % OBJECTS, (n % OBJECTS) + 500));
    await bench.api.patch(`/webhooks/endpoints/${id}`, { enabled: true });
    const cpuBefore = cpuMsOf(bench.pid);
    const live = happenLive(ground, objects);
    const { id: replayId } = await bench.api.post<Replay>('/webhooks/replays', { endpoint_id: id, status: 'skipped' });
    const replay = await ended(bench, replayId);
    const events = await live.stop();
    const all = count + events.length;
    await waitFor(() => receiver.received.size >= all, { timeoutMs: 60_000, what: 'all events' }).catch(() => {});
    const cpu = cpuMsOf(bench.pid) - cpuBefore;
    // a live event does not wait for events of its object that are not queued yet: each kind has its own order
    const objectOf = new Map(events.map(({ sequence, objectId }) => [sequence, `live ${objectId}`]));
    const order = outOfOrder(
      receiver,
      (sequence) => objectOf.get(sequence) ?? objects[(sequence - first) % OBJECTS] ?? '',
    );
    const times = (isOfReplayed: boolean) =>
      events
        .filter((event) => event.isOfReplayed === isOfReplayed)
        .map(({ sequence, committedAt }) => (receiver.received.get(sequence) ?? Date.now()) - committedAt);
    await bench.api.request('DELETE', `/webhooks/endpoints/${id}`);
    await receiver.close();
    const seconds = (Date.parse(replay.completed_at ?? '') - Date.parse(replay.created_at)) / 1000;
    return {
      'live p50, ms': percentile(times(false), 0.5),
      'live p99, ms': percentile(times(false), 0.99),
      'live p99 of replayed objects, ms': percentile(times(true), 0.99),
      'replay, s': seconds,
      'replayed/s': count / seconds,
      'CPU ms per delivery': cpu / all,
      lost: all - receiver.received.size + (replay.total - replay.delivered),
      'called twice': receiver.calls - receiver.received.size,
      'out of order': order,
    };
  },
};
