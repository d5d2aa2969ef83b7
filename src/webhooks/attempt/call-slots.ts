/** Bounds the calls under way to one endpoint, over all of its runs in this process. */
export interface CallSlots {
  /** Resolves with what gives the slot back; those of one endpoint in the order in which they were asked for. */
  acquire(endpointId: string): Promise<() => void>;
  /** The endpoint has sent a long response: for a minute it gets few calls at a time. */
  noteLongResponse(endpointId: string): void;
}

/** Calls at a time to an endpoint that sends long responses: ten at once keep this process busy with nothing else. */
const CALLS_WITH_LONG_RESPONSES = 2;
const LONG_RESPONSES_MS = 60_000;

interface Slots {
  used: number;
  /** the calls that wait, first come, first served */
  waiting: (() => void)[];
}

/** `limit`: calls to one endpoint at a time, asked anew for each. */
export function createCallSlots(limit: () => number): CallSlots {
  const endpoints = new Map<string, Slots>();
  /** those that have sent long responses, until when that counts */
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
