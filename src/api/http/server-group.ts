import cluster, { type Worker } from 'node:cluster';
import type { MetricObject, Registry } from 'prom-client';
import { AggregatorRegistry } from 'prom-client';
import type { Logger } from '../../runtime/logger.ts';

/*
 * Several API processes that share one port (SERVERS). The primary process listens, hands each connection to a worker
 * process (https://nodejs.org/api/cluster.html), restarts workers that exit, and stops all of them when it exits. Workers
 * share nothing else: each counts rate limits separately. A scrape of metrics covers all of them.
 */

interface AskMetrics {
  kind: 'metrics of this process' | 'metrics of all';
  id: number;
}
interface GivenMetrics {
  kind: 'metrics';
  id: number;
  metrics: MetricObject[][];
}
type Message = AskMetrics | GivenMetrics;

/** Delay before a restart, ms. */
const RESTART_MS = 500;
/** Time for the workers to stop, ms; shorter than the time that this process gets. */
const END_MS = 5_000;
/** Time for a worker to return its metrics, ms; late ones are omitted. */
const METRICS_MS = 1_000;

const isMessage = (message: unknown, kind: Message['kind']): message is Message =>
  typeof message === 'object' && message !== null && 'kind' in message && message.kind === kind;

/** Whether this process is the primary, which hands connections to workers and serves no calls. */
export const leadsServers = (count: number): boolean => count > 1 && cluster.isPrimary;

/** Runs `count` API processes until this process gets a signal. Calls `ready` once, when all listen. */
export function leadServers(count: number, logger: Logger, ready: () => void): void {
  let ending = false;
  let alive = 0;
  const listening = new Set<number>();
  const fork = () => {
    const worker = cluster.fork();
    alive += 1;
    worker.on('error', (err) => logger.warn({ err }, 'could not reach API process'));
    worker.on('message', (message: unknown) => {
      if (isMessage(message, 'metrics of all')) void answerMetrics(worker, message.id);
    });
    worker.on('listening', () => {
      listening.add(worker.id);
      if (listening.size === count) ready();
    });
  };
  cluster.on('exit', (worker, code, signal) => {
    alive -= 1;
    if (ending) return endWhenAlone();
    // a failed first start would fail again
    if (listening.size < count && !listening.has(worker.id)) process.exit(code || 1);
    logger.error({ code, signal }, 'API process exited; restarting');
    setTimeout(() => ending || fork(), RESTART_MS);
  });
  const endWhenAlone = () => {
    if (alive === 0) process.exit(0);
  };
  const signalAll = (signal: NodeJS.Signals) => {
    for (const worker of Object.values(cluster.workers ?? {})) worker?.process.kill(signal);
  };
  const end = (signal: NodeJS.Signals) => {
    ending = true;
    signalAll(signal);
    setTimeout(() => signalAll('SIGKILL'), END_MS).unref();
    endWhenAlone();
  };
  process.on('SIGTERM', end).on('SIGINT', end);
  for (let n = 0; n < count; n++) fork();
}

async function answerMetrics(asking: Worker, id: number): Promise<void> {
  const workers = Object.values(cluster.workers ?? {}).filter((worker) => worker !== undefined);
  const given = workers.map((worker) => ask(worker, 'metrics of this process', METRICS_MS));
  const metrics = (await Promise.all(given)).flat();
  if (asking.isConnected()) asking.send({ kind: 'metrics', id, metrics } satisfies GivenMetrics);
}

let asked = 0;

/** Asks a process for metrics; resolves with none when it does not respond in time. */
function ask(peer: Worker | NodeJS.Process, kind: AskMetrics['kind'], ms: number): Promise<MetricObject[][]> {
  const id = ++asked;
  // both are emitters, with messages of different types
  const emitter: NodeJS.EventEmitter = peer;
  return new Promise((resolve) => {
    const end = (metrics: MetricObject[][]) => {
      clearTimeout(timer);
      emitter.off('message', take);
      resolve(metrics);
    };
    const take = (message: unknown) => {
      if (isMessage(message, 'metrics') && message.id === id) end((message as GivenMetrics).metrics);
    };
    const timer = setTimeout(() => end([]), ms);
    emitter.on('message', take);
    const isConnected = 'isConnected' in peer ? peer.isConnected() : peer.connected;
    if (isConnected) (peer as { send(message: AskMetrics): void }).send({ kind, id });
  });
}

/** Returns a function that renders the metrics of all API processes in Prometheus' text format. */
export function metricsOfAll(registry: Registry): () => Promise<string> {
  if (!cluster.isWorker || !process.send) return () => registry.metrics();
  // without the label, sums would drop like after a reset when a process does not respond in time
  registry.setDefaultLabels({ process: String(cluster.worker?.id) });
  const send = process.send.bind(process);
  process.on('message', (message: unknown) => {
    if (!isMessage(message, 'metrics of this process')) return;
    void registry.getMetricsAsJSON().then((metrics) => send({ kind: 'metrics', id: message.id, metrics: [metrics] }));
  });
  return async () => {
    const metrics = await ask(process, 'metrics of all', 2 * METRICS_MS);
    return metrics.length === 0 ? registry.metrics() : AggregatorRegistry.aggregate(metrics).metrics();
  };
}
