/** Decides when an endpoint gets a further run, by the runs that are making their first attempts. */
export interface DispatchLimiter {
  begin(endpointId: string, workflowId: string): void;
  /** The run is being started again: it counts as begun now. */
  renew(workflowId: string): void;
  /**
   * The first attempts of a run have ended; its endpoint, undefined when the run was not counted any more. `isCostly`: its
   * responses are long.
   */
  end(workflowId: string, isCostly?: boolean): string | undefined;
  isUnderWay(workflowId: string): boolean;
  /** `count` deliveries of the endpoint were claimed, all that it had; `isFailing`: its last attempts failed. */
  drained(endpointId: string, count: number, isFailing?: boolean): void;
  /** endpoints that get no further run now */
  throttled(): string[];
  /** ms until one of the throttled endpoints may get a run, if no run ends before; undefined: none is throttled */
  throttledForMs(): number | undefined;
  /** whether no endpoint gets a further run */
  isFull(): boolean;
}

/** Before the id of an endpoint: its runs of replays, which are counted apart. */
export const REPLAY = 'replay ';

const MAX_RUNS_PER_ENDPOINT = 4;
const MAX_REPLAY_RUNS = 1;
/** Runs of all endpoints that are making progress: far below the local activities of the worker. */
const MAX_RUNS = 150;
/**
 * A run that takes longer is slow: its endpoint gets no further one, and it does not count against what all endpoints
 * may have, so that endpoints that do not respond take nothing from those that do.
 */
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
/** An endpoint that has sent a long response counts as costly for so long. */
const COSTLY_MS = 60_000;
const BUSY_COUNT = 4;
/** A run without news for so long is on another worker, or waits for one. */
const EXPIRY_MS = 45_000;

interface Run {
  endpointId: string;
  since: number;
}

function deletePast(times: Map<string, number>, now: number): void {
  for (const [endpointId, at] of times) if (at <= now) times.delete(endpointId);
}

/** A limiter without runs. `now` and `pace` are in ms. */
export function createDispatchLimiter(now: () => number = () => performance.now(), pace = PACE): DispatchLimiter {
  /** in the order of `since` */
  const runs = new Map<string, Run>();
  const runsOfEndpoint = new Map<string, number>();
  const notBefore = new Map<string, number>();
  /** endpoints whose responses are long, and until when that counts */
  const costly = new Map<string, number>();

  function end(workflowId: string, isCostly = false): string | undefined {
    const run = runs.get(workflowId);
    if (!run) return undefined;
    runs.delete(workflowId);
    if (isCostly) costly.set(run.endpointId, now() + COSTLY_MS);
    const others = (runsOfEndpoint.get(run.endpointId) ?? 1) - 1;
    if (others > 0) runsOfEndpoint.set(run.endpointId, others);
    else runsOfEndpoint.delete(run.endpointId);
    return run.endpointId;
  }

  function removeExpired(): void {
    for (const [workflowId, { since }] of runs) {
      if (now() - since < EXPIRY_MS) break;
      end(workflowId);
    }
    for (const times of [notBefore, costly]) deletePast(times, now());
  }

  /** in the order of `since`: slow ones come first */
  const slowRuns = (): Run[] => [...runs.values()].filter(({ since }) => now() - since >= SLOW_MS);

  /** by endpoint: ms for which it is throttled, if no run ends before */
  function waits(): Map<string, number> {
    removeExpired();
    const waitMs = new Map<string, number>();
    for (const [endpointId, at] of notBefore) waitMs.set(endpointId, at - now());
    for (const [endpointId, count] of runsOfEndpoint) {
      if (count >= (endpointId.startsWith(REPLAY) ? MAX_REPLAY_RUNS : MAX_RUNS_PER_ENDPOINT))
        waitMs.set(endpointId, EXPIRY_MS);
    }
    for (const { endpointId } of slowRuns()) waitMs.set(endpointId, EXPIRY_MS);
    return waitMs;
  }

  return {
    begin(endpointId, workflowId) {
      runs.set(workflowId, { endpointId, since: now() });
      runsOfEndpoint.set(endpointId, (runsOfEndpoint.get(endpointId) ?? 0) + 1);
    },
    renew(workflowId) {
      const run = runs.get(workflowId);
      if (run && runs.delete(workflowId)) runs.set(workflowId, { ...run, since: now() });
    },
    end,
    isUnderWay: (workflowId) => runs.has(workflowId),
    drained(endpointId, count, isFailing = false) {
      const isSlowed = isFailing || (costly.get(endpointId) ?? 0) > now();
      notBefore.set(endpointId, now() + (isSlowed ? pace.failing : count > BUSY_COUNT ? pace.busy : pace.one));
    },
    throttled: () => [...waits().keys()],
    throttledForMs() {
      const shortest = Math.min(...waits().values());
      return Number.isFinite(shortest) ? shortest : undefined;
    },
    isFull() {
      const slow = slowRuns().length;
      return slow >= MAX_SLOW_RUNS || runs.size - slow >= MAX_RUNS;
    },
  };
}
