/**
 * Decides when an endpoint gets a further run, by the runs that are making their first attempts. A run costs the same for
 * one delivery and for fifty: when there are more endpoints than a worker makes runs for, they take turns, and what waits
 * meanwhile goes in one run. Those that fail, or send long responses, share a budget of their own.
 */
export interface DispatchLimiter {
  /** `key`: what its endpoint's runs are counted by, see `keyOf` */
  begin(key: string, workflowId: string): void;
  /** The run is being started again: it counts as begun now. */
  renew(workflowId: string): void;
  /** The first attempts of a run have ended. Answers its key; undefined when the run was not counted any more. */
  end(workflowId: string, how?: HowEnded): string | undefined;
  isUnderWay(workflowId: string): boolean;
  /** What a claim has got. */
  claimed(claim: Claimed): void;
  /** keys of endpoints that get no further run now */
  throttled(): string[];
  /** endpoints that may get a run now, over all; 0: none */
  room(): number;
  /** whether so much is under way that the deliveries of an endpoint go together, however few they are */
  isBusy(): boolean;
  /** endpoints that get runs in their turns alone */
  costly(): string[];
  /** those of them that have their turn now */
  turns(): string[];
  /** ms until one of the throttled endpoints may get a run, if no run ends before; undefined: none is throttled */
  throttledForMs(): number | undefined;
}

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
/** An endpoint that fails, has never succeeded, or has sent a long response counts as costly for so long. */
const COSTLY_MS = 60_000;
/** Costly endpoints that may get runs at once, and ms between two of their runs. */
const COSTLY_TURNS = 2;
const COSTLY_PACE_MS = 100;
const BUSY_COUNT = 4;
/** A run without news for so long is on another worker, or waits for one. */
const EXPIRY_MS = 45_000;

interface Run {
  key: string;
  since: number;
}

function deletePast(times: Map<string, number>, now: number): void {
  for (const [endpointId, at] of times) if (at <= now) times.delete(endpointId);
}

/**
 * The endpoints that fail, have never responded with success, or send long responses. They take turns, whatever they have
 * waiting.
 */
class CostlyEndpoints {
  /** until when each counts as one; the next to have a turn comes first */
  readonly #until = new Map<string, number>();
  readonly #withLongResponses = new Map<string, number>();
  #nextTurn = 0;

  hasLongResponses(endpointId: string): boolean {
    return this.#withLongResponses.has(endpointId);
  }

  noteLongResponse(endpointId: string, now: number): void {
    this.#withLongResponses.set(endpointId, now + COSTLY_MS);
    this.#until.set(endpointId, now + COSTLY_MS);
  }

  noteHealth(endpointId: string, isHealthy: boolean, now: number): void {
    if (!isHealthy) this.#until.set(endpointId, now + COSTLY_MS);
    else if (!this.hasLongResponses(endpointId)) this.#until.delete(endpointId);
  }

  removeExpired(now: number): void {
    deletePast(this.#until, now);
    deletePast(this.#withLongResponses, now);
  }

  /** A run of an endpoint has begun. */
  began(endpointId: string, now: number): void {
    if (this.#until.has(endpointId)) this.#nextTurn = Math.max(now, this.#nextTurn) + COSTLY_PACE_MS;
  }

  /** One of them has had its turn. */
  moveBack(endpointId: string): void {
    const until = this.#until.get(endpointId);
    if (until === undefined) return;
    this.#until.delete(endpointId);
    this.#until.set(endpointId, until);
  }

  ids(): string[] {
    return [...this.#until.keys()];
  }

  /** Those that have their turn now, of the ones that may get a run. */
  turns(now: number, mayRun: (endpointId: string) => boolean): string[] {
    return this.#nextTurn > now ? [] : this.ids().filter(mayRun).slice(0, COSTLY_TURNS);
  }
}

/** A limiter without runs. `now` and `pace` are in ms. */
export function createDispatchLimiter(now: () => number = () => performance.now(), pace = PACE): DispatchLimiter {
  /** in the order of `since` */
  const runs = new Map<string, Run>();
  const runsOfKey = new Map<string, number>();
  const notBefore = new Map<string, number>();
  const costly = new CostlyEndpoints();

  function end(workflowId: string, { costly: isCostly = false, delivered = false }: HowEnded = {}): string | undefined {
    const run = runs.get(workflowId);
    if (!run) return undefined;
    runs.delete(workflowId);
    if (isCostly) costly.noteLongResponse(endpointOf(run.key), now());
    else if (delivered) costly.noteHealth(endpointOf(run.key), true, now());
    const others = (runsOfKey.get(run.key) ?? 1) - 1;
    if (others > 0) runsOfKey.set(run.key, others);
    else runsOfKey.delete(run.key);
    return run.key;
  }

  function removeExpired(): void {
    for (const [workflowId, { since }] of runs) {
      if (now() - since < EXPIRY_MS) break;
      end(workflowId);
    }
    deletePast(notBefore, now());
    costly.removeExpired(now());
  }

  const olderThan = (ms: number): Run[] => [...runs.values()].filter(({ since }) => now() - since >= ms);
  const progressing = () => runs.size - olderThan(WAITING_MS).length;
  const isBusy = () => progressing() >= BUSY_RUNS;

  /** by endpoint: ms for which it is throttled, if no run ends before */
  function waits(): Map<string, number> {
    removeExpired();
    const waitMs = new Map<string, number>();
    for (const [key, at] of notBefore) waitMs.set(key, at - now());
    const most = isBusy() ? 1 : MAX_RUNS_PER_ENDPOINT;
    for (const [key, count] of runsOfKey) {
      if (count >= (key.startsWith(REPLAY) ? MAX_REPLAY_RUNS : most)) waitMs.set(key, EXPIRY_MS);
    }
    for (const { key } of olderThan(SLOW_MS)) waitMs.set(key, EXPIRY_MS);
    return waitMs;
  }

  return {
    begin(key, workflowId) {
      runs.set(workflowId, { key, since: now() });
      runsOfKey.set(key, (runsOfKey.get(key) ?? 0) + 1);
      costly.began(endpointOf(key), now());
    },
    renew(workflowId) {
      const run = runs.get(workflowId);
      if (run && runs.delete(workflowId)) runs.set(workflowId, { ...run, since: now() });
    },
    end,
    isUnderWay: (workflowId) => runs.has(workflowId),
    claimed({ counts, perEndpoint, turns = [] }) {
      removeExpired();
      for (const [key, { count, isFailing, isProven }] of counts) {
        const endpointId = endpointOf(key);
        costly.noteHealth(endpointId, isProven && !isFailing, now());
        const isSlowed = isFailing || costly.hasLongResponses(endpointId);
        const ms = isSlowed ? pace.failing : count > BUSY_COUNT ? pace.busy : pace.one;
        if (count < perEndpoint) notBefore.set(key, now() + ms);
      }
      for (const endpointId of turns) {
        costly.moveBack(endpointId);
        if (!counts.has(endpointId)) notBefore.set(endpointId, now() + pace.failing);
      }
    },
    throttled: () => [...waits().keys()],
    throttledForMs() {
      const shortest = Math.min(...waits().values());
      return Number.isFinite(shortest) ? shortest : undefined;
    },
    costly() {
      removeExpired();
      return costly.ids();
    },
    turns() {
      const waitMs = waits();
      return costly.turns(now(), (endpointId) => !waitMs.has(endpointId));
    },
    room() {
      const room = MAX_RUNS - progressing();
      return room < LEAST_ROOM || runs.size - progressing() >= MAX_SLOW_RUNS ? 0 : room;
    },
    isBusy,
  };
}
