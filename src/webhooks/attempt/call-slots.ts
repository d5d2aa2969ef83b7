/** Bounds the calls under way to one endpoint, over all of its runs in this process. */
export interface CallSlots {
  /** Resolves with the function that gives the slot back. Calls of one endpoint get slots in the order in which they asked. */
  acquire(endpointId: string): Promise<() => void>;
  /** The endpoint has sent a long response: for a minute it gets one call at a time. */
  noteLongResponse(endpointId: string): void;
}

/**
 * Calls at a time to an endpoint that sends long responses. Each costs as much CPU as ten others, since its connection cannot be
 * reused: one at a time leaves a core to other endpoints.
 */
const CALLS_WITH_LONG_RESPONSES = 1;
/** For so long a long response counts: an endpoint that sends one sends others, until its owner has changed it. */
const LONG_RESPONSES_MS = 60_000;

interface Slots {
  used: number;
  /** calls that wait for a slot, in order */
  waiting: (() => void)[];
}

/** `limit` returns the number of concurrent calls to one endpoint; it is asked before each call. */
export function createCallSlots(limit: () => number): CallSlots {
  const endpoints = new Map<string, Slots>();
  /** endpoints that have sent long responses, with the time until which that counts */
  const withLongResponses = new Map<string, number>();

  function limitOf(endpointId: string): number {
    const until = withLongResponses.get(endpointId);
    if (until === undefined) return limit();
    if (until > performance.now()) return Math.min(limit(), CALLS_WITH_LONG_RESPONSES);
    withLongResponses.delete(endpointId);
    return limit();
  }

  function begin(endpointId: string, slots: Slots): void {
    const free = limitOf(endpointId) - slots.used;
    for (const next of slots.waiting.splice(0, Math.max(0, free))) {
      slots.used += 1;
      next();
    }
    if (slots.used === 0 && slots.waiting.length === 0) endpoints.delete(endpointId);
  }

  return {
    noteLongResponse: (endpointId) => void withLongResponses.set(endpointId, performance.now() + LONG_RESPONSES_MS),
    async acquire(endpointId) {
      const slots = endpoints.get(endpointId) ?? { used: 0, waiting: [] };
      endpoints.set(endpointId, slots);
      await new Promise<void>((resolve) => {
        slots.waiting.push(resolve);
        begin(endpointId, slots);
      });
      return () => {
        slots.used -= 1;
        begin(endpointId, slots);
      };
    },
  };
}
