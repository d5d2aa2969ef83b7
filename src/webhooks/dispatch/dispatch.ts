import { every } from '../../async.ts';
import type { Logger } from '../../runtime/logger.ts';
import { isCostly } from './costly-endpoints.ts';
import { type Claimed, DispatchLimiter, endpointOf, type HowEnded, keyOf, PACE, REPLAY } from './dispatch-limiter.ts';

/** A run that deliveries have been given to. */
export interface DispatchedRun {
  workflowId: string;
  deliveries: readonly {
    id: string;
    endpointId: string;
    isReplay: boolean;
    isFailing: boolean;
    isProven: boolean;
  }[];
}

/** What a claim may take. */
export interface Allowance {
  /** these endpoints alone; undefined: those whose turn it is */
  only?: readonly string[];
  /** endpoints that get no further run now */
  except: readonly string[];
  /** the same for replays: live deliveries do not wait for them */
  exceptReplays: readonly string[];
  /** endpoints at most */
  endpoints: number;
  /** of these, endpoints that fail or have never succeeded, at most; does not bound `only` */
  costly: number;
  /** deliveries of an endpoint at most */
  perEndpoint: number;
  /** runs that end soon, at most: when there are more deliveries, those of an endpoint go together */
  runs: number;
}

/** What a claim has got. */
export interface ClaimedRuns<Run> {
  runs: Run[];
  /** other endpoints have their turn in the next claim */
  isMore: boolean;
  /** so many each endpoint could get, fewer where many have their turn */
  perEndpoint: number;
  /** there may be more that is due once these runs have ended, of the same objects */
  hasLeft: boolean;
}

/** The store and Temporal, as dispatching needs them. */
export interface DispatchDeps<Run extends DispatchedRun> {
  /** Gives waiting deliveries to runs. */
  claim(allowance: Allowance): Promise<ClaimedRuns<Run>>;
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
  attempts(workflowId: string, are: 'begun' | 'ended', how?: HowEnded): void;
  /** Claims nothing any more and waits for starts under way. */
  stop(): Promise<void>;
}

/** One run takes at most this many deliveries. */
export const MAX_BATCH = 50;
/** Two whole batches. */
const PER_CLAIM = 2 * MAX_BATCH;

/** So many claims in a row get nothing before those after them are made less often. */
const CLAIMS_IN_VAIN = 2;

/** Milliseconds. */
const TIMES = {
  /** between two claims for one endpoint; see PACE */
  pace: PACE,
  /** between two claims without a notification */
  poll: 1_000,
  /** between two claims at least: what was notified meanwhile goes in one */
  spacing: 10,
  /** between two claims for costly endpoints */
  costly: 100,
  /** the same once claims have got nothing, while endpoints are throttled */
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
  /** endpoints may have been left out since they fail or have never succeeded, and others like them have runs */
  #leftOutCostly = false;
  #stopped = false;
  /** notifications so far */
  #notices = 0;
  #woken = true;
  #endRest = () => {};
  readonly #listener;
  readonly #claiming;
  readonly #claimingCostly;
  readonly #sweeping;
  readonly #marking;

  constructor(deps: DispatchDeps<Run>) {
    this.#deps = deps;
    this.#times = { ...TIMES, ...deps.times };
    this.#limiter = new DispatchLimiter(undefined, this.#times.pace);
    this.#listener = deps.listen(() => {
      this.#notices += 1;
      this.#wake();
    });
    this.#claiming = this.#claimLoop();
    this.#claimingCostly = every(this.#times.costly, () => this.#claimCostly(), deps.logger);
    this.#sweeping = every(this.#times.sweep, async () => this.#startAll(await deps.unstarted()), deps.logger);
    this.#marking = every(this.#times.mark, () => this.#mark(), deps.logger);
  }

  attempts(workflowId: string, are: 'begun' | 'ended', how?: HowEnded): void {
    if (are === 'begun') return this.#limiter.renew(workflowId);
    const run = this.#limiter.end(workflowId, how);
    // nothing has come since it was claimed, and the claim left nothing: nothing can be due by that
    if (run && how?.delivered && run.notices === this.#notices && !this.#passedOver.has(run.key)) return;
    // later events of the same objects may be due, and its endpoint may get the next run
    this.#wake();
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.#endRest();
    await Promise.all([this.#listener.close(), this.#claiming, this.#claimingCostly.stop(), this.#sweeping.stop()]);
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
    let inVain = 0;
    while (!this.#stopped) {
      // what is notified during a round over the endpoints may be of one that had its turn
      if (!this.#isMore) this.#woken = false;
      const claimedAny = await this.#claimOnce();
      const throttled = this.#passedOver.size > 0;
      // Notifications name no endpoint: while those of throttled ones come, not every one is worth a query.
      inVain = throttled && !claimedAny ? inVain + 1 : 0;
      const spacing = inVain > CLAIMS_IN_VAIN ? this.#times.throttledSpacing : this.#times.spacing;
      await new Promise((resolve) => setTimeout(resolve, spacing));
      if (this.#isMore) continue;
      const poll = this.#leftOutCostly ? this.#times.costly : this.#times.poll;
      await this.#rest(throttled ? Math.min(poll, this.#limiter.throttledForMs() ?? 0) : poll);
    }
  }

  /** Whether there was anything to claim. */
  async #claimOnce(): Promise<boolean> {
    const notices = this.#notices;
    const costly = this.#limiter.costly();
    const isOther = (key: string) => !costly.includes(endpointOf(key));
    this.#passedOver = new Set(this.#limiter.throttled().filter(isOther));
    const isSameRound = this.#isMore;
    this.#isMore = false;
    const allowance = this.#allowance(this.#passedOver);
    if (!allowance) return false;
    try {
      const { runs, isMore, perEndpoint, hasLeft } = await this.#deps.claim({
        ...allowance,
        except: [...allowance.except, ...costly],
      });
      this.#isMore = isMore;
      const counts = countByEndpoint(runs);
      this.#limiter.claimed({ counts, perEndpoint });
      for (const [key, { count }] of counts) if (count >= perEndpoint) this.#passedOver.add(key);
      this.#leftOutCostly = (isSameRound && this.#leftOutCostly) || countCostly(counts) >= allowance.costly;
      this.#startAll(runs, isMore || hasLeft ? undefined : notices);
      return runs.length > 0;
    } catch (err) {
      this.#deps.logger.warn({ err }, 'could not claim deliveries');
      return false;
    }
  }

  /** Claims for the costly endpoints whose turn it is; nobody else waits for that. */
  async #claimCostly(): Promise<void> {
    const turns = this.#limiter.turns();
    const allowance = turns.length > 0 && this.#allowance(this.#limiter.throttled());
    if (!allowance) return;
    let claimed: { runs: Run[]; perEndpoint: number } = { runs: [], perEndpoint: 0 };
    try {
      claimed = await this.#deps.claim({ ...allowance, only: turns });
    } finally {
      // also when it failed: the others have their turns
      this.#limiter.claimed({ counts: countByEndpoint(claimed.runs), perEndpoint: claimed.perEndpoint, turns });
    }
    this.#startAll(claimed.runs);
  }

  /** Undefined: there is room for no run. */
  #allowance(throttled: Iterable<string>): Allowance | undefined {
    const keys = [...throttled];
    const endpoints = this.#limiter.room();
    if (endpoints === 0) return undefined;
    return {
      except: keys.filter((key) => !key.startsWith(REPLAY)),
      exceptReplays: keys.filter((key) => key.startsWith(REPLAY)).map(endpointOf),
      endpoints,
      costly: this.#limiter.costlyRoom(),
      perEndpoint: PER_CLAIM,
      runs: this.#limiter.isBusy() ? 0 : endpoints,
    };
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

  #startAll(runs: Run[], notices = -1): void {
    for (const run of runs) {
      if (this.#limiter.isUnderWay(run.workflowId)) continue;
      const done = this.#start(run, notices).finally(() => this.#starting.delete(done));
      this.#starting.add(done);
    }
  }

  /** Starts a run, again and again until Temporal has it. */
  async #start(run: Run, notices: number): Promise<void> {
    const [first] = run.deliveries;
    if (first) this.#limiter.begin(keyOf(first), run.workflowId, notices);
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

function countCostly(counts: Claimed['counts']): number {
  return [...counts.values()].filter(isCostly).length;
}

function countByEndpoint(runs: readonly DispatchedRun[]): Claimed['counts'] {
  const counts = new Map<string, { count: number; isFailing: boolean; isProven: boolean }>();
  for (const delivery of runs.flatMap((run) => run.deliveries)) {
    const { isFailing, isProven } = delivery;
    const { count = 0 } = counts.get(keyOf(delivery)) ?? {};
    counts.set(keyOf(delivery), { count: count + 1, isFailing, isProven });
  }
  return counts;
}
