/** Which runs are making their first tries, by endpoint: what decides when an endpoint gets another one. */
export interface DispatchLimiter {
  begin(endpointId: string, workflowId: string): void;
  /** Its start is being tried again: it counts as begun now. */
  renew(workflowId: string): void;
  /** The endpoint of a run that was known to be under way. */
  end(workflowId: string): string | undefined;
  has(workflowId: string): boolean;
  /** `count` deliveries of the endpoint were claimed; `drained`: it had no more. */
  claimed(endpointId: string, count: number, drained: boolean): void;
  /** endpoints that get no further run just now */
  held(): string[];
  /** ms until one of the held endpoints is no longer held, if no run ends; undefined: none is held */
  heldForMs(): number | undefined;
  /** whether no endpoint gets a further run */
  full(): boolean;
}

/** Runs of one endpoint at a time. */
const PER_ENDPOINT = 4;
/** Runs over all endpoints: below the 200 local activities of the worker. */
const IN_ALL = 150;
/**
 * A run costs the same for one delivery and for fifty. So after a claim that left nothing the next one waits a little,
 * and longer where several came at once: under load deliveries gather.
 */
const PACE_MS = 100;
const BUSY_PACE_MS = 250;
const BUSY_COUNT = 4;
/** A run of which nothing was heard for so long is being made by another worker, or waits for one. */
const FORGOTTEN_MS = 45_000;

export function createDispatchLimiter(now: () => number = () => performance.now()): DispatchLimiter {
  const runs = new Map<string, { endpointId: string; since: number }>();
  const underWay = new Map<string, number>();
  const notBefore = new Map<string, number>();

  function drop(workflowId: string): string | undefined {
    const run = runs.get(workflowId);
    if (!run) return undefined;
    runs.delete(workflowId);
    const others = (underWay.get(run.endpointId) ?? 1) - 1;
    if (others > 0) underWay.set(run.endpointId, others);
    else underWay.delete(run.endpointId);
    return run.endpointId;
  }

  /** by endpoint, ms for which it is held if no run ends */
  function holds(): Map<string, number> {
    // in the order of `since`
    for (const [workflowId, { since }] of runs) {
      if (now() - since < FORGOTTEN_MS) break;
      drop(workflowId);
    }
    const found = new Map<string, number>();
    for (const [endpointId, at] of notBefore) {
      if (at > now()) found.set(endpointId, at - now());
      else notBefore.delete(endpointId);
    }
    for (const [endpointId, count] of underWay) if (count >= PER_ENDPOINT) found.set(endpointId, FORGOTTEN_MS);
    return found;
  }

  return {
    begin(endpointId, workflowId) {
      runs.set(workflowId, { endpointId, since: now() });
      underWay.set(endpointId, (underWay.get(endpointId) ?? 0) + 1);
    },
    renew(workflowId) {
      const run = runs.get(workflowId);
      if (run && runs.delete(workflowId)) runs.set(workflowId, { ...run, since: now() });
    },
    end: drop,
    has: (workflowId) => runs.has(workflowId),
    claimed(endpointId, count, drained) {
      if (drained) notBefore.set(endpointId, now() + (count > BUSY_COUNT ? BUSY_PACE_MS : PACE_MS));
    },
    held: () => [...holds().keys()],
    heldForMs() {
      const waits = [...holds().values()];
      return waits.length === 0 ? undefined : Math.min(...waits);
    },
    full: () => runs.size >= IN_ALL,
  };
}

/** What is known of a delivery that waits for a run. */
export interface Waiting {
  id: string;
  endpointId: string;
}

/** One run takes at most this many deliveries. */
export const MAX_BATCH = 50;

/** Deliveries in the order given, parted into runs: each run has one endpoint and at most MAX_BATCH deliveries. */
export function planRuns<T extends Waiting>(
  deliveries: readonly T[],
  names: { alone(deliveryId: string): string; batch(endpointId: string, firstDeliveryId: string): string },
): { workflowId: string; deliveries: T[] }[] {
  const parts: T[][] = [];
  const filling = new Map<string, T[]>();
  for (const delivery of deliveries) {
    const part = filling.get(delivery.endpointId);
    if (part && part.length < MAX_BATCH) part.push(delivery);
    else {
      const begun = [delivery];
      parts.push(begun);
      filling.set(delivery.endpointId, begun);
    }
  }
  return parts.map((part) => {
    const { id, endpointId } = part[0] as T;
    return { workflowId: part.length === 1 ? names.alone(id) : names.batch(endpointId, id), deliveries: part };
  });
}
