import { CostlyEndpoints, deletePast, isCostly } from './costly-endpoints.ts';

/** How the first attempts of a run have ended. */
export interface HowEnded {
  /** the endpoint sends long responses */
  costly?: boolean;
  /** all were delivered */
  delivered?: boolean;
}

/** What a claim has got, by key. */
export interface Claimed {
  /** `isFailing`: the last attempts failed; `isProven`: one has succeeded */
  counts: ReadonlyMap<string, { count: number; isFailing: boolean; isProven: boolean }>;
  /** of one that got fewer nothing is left */
  perEndpoint: number;
  /** costly endpoints that had their turn */
  turns?: readonly string[];
}

/** Before the id of an endpoint: its runs of replays, which are counted apart. */
export const REPLAY = 'replay ';

/** What the limiter counts runs by: the endpoint, replays apart. */
export function keyOf({ endpointId, isReplay }: { endpointId: string; isReplay: boolean }): string {
  return isReplay ? REPLAY + endpointId : endpointId;
}

/** The endpoint of a key. */
export function endpointOf(key: string): string {
  return key.startsWith(REPLAY) ? key.slice(REPLAY.length) : key;
}

const MAX_RUNS_PER_ENDPOINT = 4;
const MAX_REPLAY_RUNS = 1;
/**
 * Runs of all endpoints that are making progress. Each takes tens of milliseconds of CPU here and in Temporal: more of them
 * end no sooner, and everything else waits behind them.
 */
const MAX_RUNS = 16;
/** Of these, runs of endpoints that fail or have never succeeded: those of healthy ones wait behind few of them. */
const MAX_COSTLY_RUNS = 4;
/** For fewer endpoints no claim is made. */
const LEAST_ROOM = 4;
/** More runs than that: the machine has enough to do. */
const BUSY_RUNS = 6;
/** A run that waits longer for its endpoint takes little else: it does not count against what all endpoints may have. */
const WAITING_MS = 300;
/** A run that takes longer is slow: its endpoint gets no further one meanwhile. */
const SLOW_MS = 1_000;
/** Slow runs of all endpoints, for the worker's sake. */
const MAX_SLOW_RUNS = 800;
/**
 * A run costs the same for one delivery and for fifty. After a claim that emptied an endpoint, the next claim waits a
 * little, and longer where several deliveries came at once: under load they gather into batches. Those of
 * an endpoint that fails, or sends long responses, gather longest: each of its runs costs what one of a healthy endpoint
 * does, or more.
 */
export const PACE = { one: 15, busy: 40, failing: 1_000 };
const BUSY_COUNT = 4;
/** A run without news for so long is on another worker, or waits for one. */
const EXPIRY_MS = 45_000;

/** A run that makes its first attempts. */
export interface Run {
  key: string;
  since: number;
  notices: number;
}

/**
 * Decides when an endpoint gets a further run, by the runs that are making their first attempts. A run costs the same for
 * one delivery and for fifty: when there are more endpoints than a worker makes runs for, they take turns, and what waits
 * meanwhile goes in one run. Those that fail, or send long responses, share a budget of their own.
 */
export class DispatchLimiter {
  readonly #now: () => number;
  readonly #pace: typeof PACE;
  /** in the order of `since` */
  readonly #runs = new Map<string, Run>();
  readonly #runsOfKey = new Map<string, number>();
  readonly #notBefore = new Map<string, number>();
  readonly #costly = new CostlyEndpoints();

  /** `now` and `pace` are in ms. */
  constructor(now: () => number = () => performance.now(), pace = PACE) {
    this.#now = now;
    this.#pace = pace;
  }

  /** `key`: what its endpoint's runs are counted by, see `keyOf`; `notices`: notifications until it was claimed. */
  begin(key: string, workflowId: string, notices = 0): void {
    this.#runs.set(workflowId, { key, notices, since: this.#now() });
    this.#runsOfKey.set(key, (this.#runsOfKey.get(key) ?? 0) + 1);
    this.#costly.began(endpointOf(key), this.#now());
  }

  /** The run is being started again: it counts as begun now. */
  renew(workflowId: string): void {
    const run = this.#runs.get(workflowId);
    if (run && this.#runs.delete(workflowId)) this.#runs.set(workflowId, { ...run, since: this.#now() });
  }

  /** The first attempts of a run have ended; undefined when the run was not counted any more. */
  end(workflowId: string, { costly = false, delivered = false }: HowEnded = {}): Run | undefined {
    const run = this.#runs.get(workflowId);
    if (!run) return undefined;
    const { key } = run;
    this.#runs.delete(workflowId);
    if (costly) this.#costly.noteLongResponse(endpointOf(key), this.#now());
    else if (delivered) this.#noteDelivered(key);
    const others = (this.#runsOfKey.get(key) ?? 1) - 1;
    if (others > 0) this.#runsOfKey.set(key, others);
    else this.#runsOfKey.delete(key);
    return run;
  }

  isUnderWay(workflowId: string): boolean {
    return this.#runs.has(workflowId);
  }

  /** What a claim has got. */
  claimed({ counts, perEndpoint, turns = [] }: Claimed): void {
    this.#removeExpired();
    for (const [key, { count, ...health }] of counts) {
      const endpointId = endpointOf(key);
      this.#costly.noteHealth(endpointId, !isCostly(health), this.#now());
      const isSlowed = health.isFailing || this.#costly.hasLongResponses(endpointId);
      const { failing, busy, one } = this.#pace;
      if (count < perEndpoint) this.#holdFor(key, isSlowed ? failing : count > BUSY_COUNT ? busy : one);
    }
    for (const endpointId of turns) {
      this.#costly.hadTurn(endpointId, this.#now());
      if (!counts.has(endpointId)) this.#holdFor(endpointId, this.#pace.failing);
    }
  }

  /** Keys of endpoints that get no further run now. */
  throttled(): string[] {
    return [...this.#waits().keys()];
  }

  /**
   * ms until one of the throttled endpoints that are not costly may get a run, if no run ends before; undefined: none is
   * throttled.
   */
  throttledForMs(): number | undefined {
    let shortest = Infinity;
    for (const [key, ms] of this.#waits()) {
      if (!this.#costly.has(endpointOf(key))) shortest = Math.min(shortest, ms);
    }
    return Number.isFinite(shortest) ? shortest : undefined;
  }

  /** Endpoints that get runs in their turns alone. */
  costly(): string[] {
    this.#removeExpired();
    return this.#costly.ids();
  }

  /** Those of the costly ones that have their turn now. */
  turns(): string[] {
    const waits = this.#waits();
    return this.#costly.turns(this.#now(), (endpointId) => !waits.has(endpointId));
  }

  /** Endpoints that may get a run now, over all; 0: none. */
  room(): number {
    const progressing = this.#progressing();
    const room = MAX_RUNS - progressing;
    return room < LEAST_ROOM || this.#runs.size - progressing >= MAX_SLOW_RUNS ? 0 : room;
  }

  /** Endpoints that fail or have never succeeded that may get a run now. */
  costlyRoom(): number {
    const since = this.#now() - WAITING_MS;
    const running = [...this.#runs.values()].filter(
      (run) => run.since > since && this.#costly.has(endpointOf(run.key)),
    );
    return Math.max(0, MAX_COSTLY_RUNS - running.length);
  }

  /** Whether so much is under way that the deliveries of an endpoint go together, however few they are. */
  isBusy(): boolean {
    return this.#progressing() >= BUSY_RUNS;
  }

  /** What it was held for as a costly endpoint is over: it had a turn before anything was due. */
  #noteDelivered(key: string): void {
    const endpointId = endpointOf(key);
    if (!this.#costly.has(endpointId)) return;
    this.#costly.noteHealth(endpointId, true, this.#now());
    if (!this.#costly.has(endpointId)) this.#notBefore.delete(key);
  }

  #holdFor(key: string, ms: number): void {
    this.#notBefore.set(key, this.#now() + ms);
  }

  #olderThan(ms: number): Run[] {
    return [...this.#runs.values()].filter(({ since }) => this.#now() - since >= ms);
  }

  #progressing(): number {
    return this.#runs.size - this.#olderThan(WAITING_MS).length;
  }

  #removeExpired(): void {
    for (const [workflowId, { since }] of this.#runs) {
      if (this.#now() - since < EXPIRY_MS) break;
      this.end(workflowId);
    }
    deletePast(this.#notBefore, this.#now());
    this.#costly.removeExpired(this.#now());
  }

  /** by key: ms for which it is throttled, if no run ends before */
  #waits(): Map<string, number> {
    this.#removeExpired();
    const waitMs = new Map<string, number>();
    for (const [key, at] of this.#notBefore) waitMs.set(key, at - this.#now());
    const most = this.isBusy() ? 1 : MAX_RUNS_PER_ENDPOINT;
    for (const [key, count] of this.#runsOfKey) {
      if (count >= (key.startsWith(REPLAY) ? MAX_REPLAY_RUNS : most)) waitMs.set(key, EXPIRY_MS);
    }
    for (const { key } of this.#olderThan(SLOW_MS)) waitMs.set(key, EXPIRY_MS);
    return waitMs;
  }
}
