import type { Logger } from '../logger.ts';
import { createDispatchLimiter, MAX_BATCH } from './dispatch.ts';

/** A run that deliveries have been given to. */
export interface RelayRun {
  workflowId: string;
  deliveries: readonly { id: string; endpointId: string }[];
}

export interface RelayDeps<Run extends RelayRun> {
  /** Gives waiting deliveries to runs: at most so many of an endpoint, and none of those that are held. */
  claim(perEndpoint: number, endpointsHeld: readonly string[]): Promise<Run[]>;
  /** runs that deliveries were given to some time ago, and that may never have been started */
  unstarted(): Promise<Run[]>;
  /** Starts a run; doing it again does nothing. Whether its first task was given to this process. */
  start(run: Run): Promise<boolean>;
  markStarted(deliveryIds: string[]): Promise<void>;
  /** Calls `wake` when deliveries have been added; returns how to stop. Reconnects by itself. */
  listen(wake: () => void): { close(): Promise<void> };
  logger: Logger;
  /** for tests */
  times?: Partial<Record<keyof typeof TIMES, number>>;
}

export interface Relay {
  /** the first try of that run has ended: the next run of its endpoint may begin */
  firstTryEnded(workflowId: string): void;
  /** Claims nothing any more and waits for starts under way. */
  stop(): Promise<void>;
}

/** Two whole batches. */
const PER_CLAIM = 2 * MAX_BATCH;

/** Milliseconds. */
const TIMES = {
  /** without a notice there is a look this often */
  poll: 1_000,
  /** two looks are at least this far apart: what came meanwhile goes in one */
  spacing: 10,
  heldSpacing: 50,
  /** runs that may never have been started are looked for this often */
  sweep: 5_000,
  /** a run that could not be started is tried again after this */
  startAgain: 1_000,
  /** a run that another worker got counts as under way for so long */
  elsewhere: 5_000,
  /** that runs are known to Temporal is noted in one go; most have stored a result by then, which says so too */
  mark: 2_000,
};

/**
 * Hands deliveries from the outbox to runs: wakes on notices and polls beside them, in case one was
 * lost. At rest a delivery is started at once and alone; while an endpoint has runs under way, its deliveries gather and
 * go in batches. What one endpoint has waiting holds up no other.
 */
export function startRelay<Run extends RelayRun>(deps: RelayDeps<Run>): Relay {
  const { logger } = deps;
  const times = { ...TIMES, ...deps.times };
  const lanes = createDispatchLimiter();
  const starting = new Set<Promise<void>>();
  const toMark = new Set<string>();
  /** endpoints that the last look passed over, or did not empty; whether it passed over all */
  let held = new Set<string>();
  let full = false;
  let stopped = false;
  let wake = () => {};
  let asked = true;

  const look = () => {
    asked = true;
    wake();
  };
  const listener = deps.listen(look);

  /** Waits for a notice, or as long as given. */
  const rest = (ms: number) =>
    new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, ms);
      wake = () => {
        clearTimeout(timer);
        resolve();
      };
      if (asked || stopped) wake();
    });

  async function start(run: Run): Promise<void> {
    const endpointId = run.deliveries[0]?.endpointId ?? '';
    lanes.begin(endpointId, run.workflowId);
    for (;;) {
      try {
        const here = await deps.start(run);
        for (const { id } of run.deliveries) toMark.add(id);
        // nobody will say when it ends if another worker got it
        if (!here) setTimeout(() => firstTryEnded(run.workflowId), times.elsewhere).unref();
        return;
      } catch (err) {
        logger.warn({ err, workflowId: run.workflowId }, 'could not start a delivery run yet');
        lanes.renew(run.workflowId);
        await new Promise((resolve) => setTimeout(resolve, times.startAgain));
        if (stopped) return;
      }
    }
  }

  function startAll(runs: Run[]): void {
    for (const run of runs) {
      if (lanes.has(run.workflowId)) continue;
      const done = start(run).finally(() => starting.delete(done));
      starting.add(done);
    }
  }

  async function claimLoop(): Promise<void> {
    while (!stopped) {
      asked = false;
      let found = false;
      held = new Set(lanes.held());
      full = lanes.full();
      try {
        const runs = full ? [] : await deps.claim(PER_CLAIM, [...held]);
        startAll(runs);
        found = runs.length > 0;
        for (const [endpointId, count] of countByEndpoint(runs)) {
          lanes.claimed(endpointId, count, count < PER_CLAIM);
          if (count >= PER_CLAIM) held.add(endpointId);
        }
      } catch (err) {
        logger.warn({ err }, 'could not claim deliveries');
      }
      // notices do not say for whom they are: while some are held, not every one is worth a look
      const spacing = held.size > 0 && !found ? times.heldSpacing : times.spacing;
      await new Promise((resolve) => setTimeout(resolve, spacing));
      await rest(held.size > 0 ? Math.min(times.poll, lanes.heldForMs() ?? 0) : times.poll);
    }
  }

  async function mark(): Promise<void> {
    const ids = [...toMark];
    if (ids.length === 0) return;
    await deps.markStarted(ids);
    for (const id of ids) toMark.delete(id);
  }

  function firstTryEnded(workflowId: string): void {
    const endpointId = lanes.end(workflowId);
    if (endpointId !== undefined && (full || held.has(endpointId))) look();
  }

  const claiming = claimLoop();
  const sweeping = every(
    times.sweep,
    async () => startAll(await deps.unstarted()),
    (err) => logger.warn({ err }, 'could not look for delivery runs that were not started'),
  );
  const marking = every(times.mark, mark, (err) =>
    logger.warn({ err }, 'could not note which delivery runs were started'),
  );

  async function stop(): Promise<void> {
    stopped = true;
    wake();
    await Promise.all([listener.close(), claiming, sweeping.stop()]);
    await Promise.all(starting);
    await marking.stop();
    await mark().catch((err: unknown) => logger.warn({ err }, 'could not note which delivery runs were started'));
  }

  let stopping: Promise<void> | undefined;
  return { firstTryEnded, stop: () => (stopping ??= stop()) };
}

function countByEndpoint(runs: readonly RelayRun[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const { endpointId } of runs.flatMap((run) => run.deliveries)) {
    counts.set(endpointId, (counts.get(endpointId) ?? 0) + 1);
  }
  return counts;
}

/** Does the work every so often, never twice at a time. */
function every(ms: number, work: () => Promise<void>, onError: (error: unknown) => void): { stop(): Promise<void> } {
  let current: Promise<void> | undefined;
  const run = () =>
    (current ??= work()
      .catch(onError)
      .finally(() => {
        current = undefined;
      }));
  const timer = setInterval(() => void run(), ms);
  return {
    async stop() {
      clearInterval(timer);
      await current;
    },
  };
}
