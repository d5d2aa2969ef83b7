import { every } from '../async.ts';
import type { Logger } from '../logger.ts';
import { createDispatchLimiter, PACE, REPLAY } from './dispatch-limiter.ts';

/** A run that deliveries have been given to. */
export interface DispatchedRun {
  workflowId: string;
  deliveries: readonly { id: string; endpointId: string; isReplay: boolean; isFailing: boolean }[];
}

/** Endpoints that get no further run now. */
export interface Throttled {
  all: readonly string[];
  /** live deliveries do not wait for those of a replay */
  replays: readonly string[];
}

/** The store and Temporal, as dispatching needs them. */
export interface DispatchDeps<Run extends DispatchedRun> {
  /**
   * Gives waiting deliveries to runs: at most so many of an endpoint, and none of the throttled endpoints. `isMore`: other
   * endpoints have their turn in the next claim; `perEndpoint`: so many each could get, fewer where many have their turn.
   */
  claim(perEndpoint: number, throttled: Throttled): Promise<{ runs: Run[]; isMore: boolean; perEndpoint: number }>;
  /** runs that were claimed some time ago and are not known to have been started */
  unstarted(): Promise<Run[]>;
  /** Starts a run; doing it again does nothing. Whether its first task was given to this process. */
  start(run: Run): Promise<boolean>;
  markStarted(runs: readonly { workflowId: string; deliveryId: string }[]): Promise<void>;
  /** Calls `wake` when deliveries have been added; returns how to stop. Reconnects by itself. */
  listen(wake: () => void): { close(): Promise<void> };
  logger: Logger;
  /** for tests */
  times?: Partial<typeof TIMES>;
}

export interface Dispatch {
  /** Attempts of that run have begun, or have ended: then the next run of its endpoint may begin. */
  attempts(workflowId: string, are: 'begun' | 'ended', how?: { costly: boolean }): void;
  /** Claims nothing any more and waits for starts under way. */
  stop(): Promise<void>;
}

/** One run takes at most this many deliveries. */
export const MAX_BATCH = 50;
/** Two whole batches. */
const PER_CLAIM = 2 * MAX_BATCH;

/** Milliseconds. */
const TIMES = {
  /** between two claims for one endpoint; see PACE */
  pace: PACE,
  /** between two claims without a notification */
  poll: 1_000,
  /** between two claims at least: what was notified meanwhile goes in one */
  spacing: 10,
  throttledSpacing: 50,
  /** between two queries for runs that may never have been started */
  sweep: 5_000,
  /** until a run that could not be started is started again */
  startAgain: 1_000,
  /** for which a run that another worker got counts as under way */
  elsewhere: 1_000,
  /** between two writes that mark runs as started; most have stored a result by then, which marks them too */
  mark: 2_000,
};

/** Starts dispatching; see `startRelay`. */
export function startDispatch<Run extends DispatchedRun>(deps: DispatchDeps<Run>): Dispatch {
  const loop = new DispatchLoop(deps);
  let stopping: Promise<void> | undefined;
  return {
    attempts: (workflowId, are, how) => loop.attempts(workflowId, are, how),
    stop: () => (stopping ??= loop.stop()),
  };
}

/** Claims waiting deliveries whenever it is woken or `poll` has passed, and starts their runs. */
class DispatchLoop<Run extends DispatchedRun> {
  readonly #deps: DispatchDeps<Run>;
  readonly #times: typeof TIMES;
  readonly #limiter;
  readonly #starting = new Set<Promise<void>>();
  /** runs of started deliveries that are not marked yet, by delivery */
  readonly #toMark = new Map<string, string>();
  /** endpoints that the last claim passed over, or did not empty */
  #passedOver = new Set<string>();
  /** endpoints have not had their turn */
  #isMore = false;
  #stopped = false;
  #woken = true;
  #endRest = () => {};
  readonly #listener;
  readonly #claiming;
  readonly #sweeping;
  readonly #marking;

  constructor(deps: DispatchDeps<Run>) {
    this.#deps = deps;
    this.#times = { ...TIMES, ...deps.times };
    this.#limiter = createDispatchLimiter(undefined, this.#times.pace);
    this.#listener = deps.listen(() => this.#wake());
    this.#claiming = this.#claimLoop();
    this.#sweeping = every(this.#times.sweep, async () => this.#startAll(await deps.unstarted()), deps.logger);
    this.#marking = every(this.#times.mark, () => this.#mark(), deps.logger);
  }

  attempts(workflowId: string, are: 'begun' | 'ended', { costly } = { costly: false }): void {
    if (are === 'begun') return this.#limiter.renew(workflowId);
    this.#limiter.end(workflowId, costly);
    // later events of the same objects may be due, and its endpoint may get the next run
    this.#wake();
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.#endRest();
    await Promise.all([this.#listener.close(), this.#claiming, this.#sweeping.stop()]);
    await Promise.all(this.#starting);
    await this.#marking.stop();
    await this.#mark().catch((err: unknown) => {
      this.#deps.logger.warn({ err }, 'could not mark which delivery runs were started');
    });
  }

  #wake(): void {
    this.#woken = true;
    this.#endRest();
  }

  async #claimLoop(): Promise<void> {
    while (!this.#stopped) {
      // what is notified during a round over the endpoints may be of one that had its turn
      if (!this.#isMore) this.#woken = false;
      const claimedAny = await this.#claimOnce();
      const throttled = this.#passedOver.size > 0;
      // Notifications name no endpoint: while some are throttled, not every one is worth a query.
      const spacing = throttled && !claimedAny ? this.#times.throttledSpacing : this.#times.spacing;
      await new Promise((resolve) => setTimeout(resolve, spacing));
      if (this.#isMore) continue;
      const { poll } = this.#times;
      await this.#rest(throttled ? Math.min(poll, this.#limiter.throttledForMs() ?? 0) : poll);
    }
  }

  /** Whether there was anything to claim. */
  async #claimOnce(): Promise<boolean> {
    this.#passedOver = new Set(this.#limiter.throttled());
    this.#isMore = false;
    if (this.#limiter.isFull()) return false;
    try {
      const { runs, isMore, perEndpoint } = await this.#deps.claim(PER_CLAIM, {
        all: [...this.#passedOver].filter((key) => !key.startsWith(REPLAY)),
        replays: [...this.#passedOver].filter((key) => key.startsWith(REPLAY)).map((key) => key.slice(REPLAY.length)),
      });
      this.#isMore = isMore;
      this.#startAll(runs);
      for (const [key, { count, isFailing }] of countByEndpoint(runs)) {
        if (count < perEndpoint) this.#limiter.drained(key, count, isFailing);
        else this.#passedOver.add(key);
      }
      return runs.length > 0;
    } catch (err) {
      this.#deps.logger.warn({ err }, 'could not claim deliveries');
      return false;
    }
  }

  /** Waits until woken, at most `ms`. */
  #rest(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.#endRest = () => {
        clearTimeout(timer);
        resolve();
      };
      if (this.#woken || this.#stopped) this.#endRest();
    });
  }

  #startAll(runs: Run[]): void {
    for (const run of runs) {
      if (this.#limiter.isUnderWay(run.workflowId)) continue;
      const done = this.#start(run).finally(() => this.#starting.delete(done));
      this.#starting.add(done);
    }
  }

  /** Starts a run, again and again until Temporal has it. */
  async #start(run: Run): Promise<void> {
    const [first] = run.deliveries;
    if (first) this.#limiter.begin(keyOf(first), run.workflowId);
    for (;;) {
      try {
        const isHere = await this.#deps.start(run);
        for (const { id } of run.deliveries) this.#toMark.set(id, run.workflowId);
        // Nobody reports the end of its first attempts when another worker got it.
        if (!isHere) setTimeout(() => this.attempts(run.workflowId, 'ended'), this.#times.elsewhere).unref();
        return;
      } catch (err) {
        this.#deps.logger.warn({ err, workflowId: run.workflowId }, 'could not start a delivery run yet');
        this.#limiter.renew(run.workflowId);
        await new Promise((resolve) => setTimeout(resolve, this.#times.startAgain));
        if (this.#stopped) return;
      }
    }
  }

  async #mark(): Promise<void> {
    const runs = [...this.#toMark].map(([deliveryId, workflowId]) => ({ deliveryId, workflowId }));
    if (runs.length === 0) return;
    await this.#deps.markStarted(runs);
    for (const { deliveryId, workflowId } of runs) {
      if (this.#toMark.get(deliveryId) === workflowId) this.#toMark.delete(deliveryId);
    }
  }
}

function countByEndpoint(runs: readonly DispatchedRun[]): Map<string, { count: number; isFailing: boolean }> {
  const counts = new Map<string, { count: number; isFailing: boolean }>();
  for (const delivery of runs.flatMap((run) => run.deliveries)) {
    const { count = 0 } = counts.get(keyOf(delivery)) ?? {};
    counts.set(keyOf(delivery), { count: count + 1, isFailing: delivery.isFailing });
  }
  return counts;
}

/** What the limiter counts runs by: the endpoint, replays apart. */
function keyOf({ endpointId, isReplay }: { endpointId: string; isReplay: boolean }): string {
  return isReplay ? REPLAY + endpointId : endpointId;
}
