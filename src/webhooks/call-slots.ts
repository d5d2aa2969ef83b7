/** Bounds the calls under way to one endpoint, over all of its runs in this process. */
export interface CallSlots {
  /** Resolves with what gives the slot back; those of one endpoint in the order in which they were asked for. */
  acquire(endpointId: string): Promise<() => void>;
}

/** `limit`: calls to one endpoint at a time, asked anew for each. */
export function createCallSlots(limit: () => number): CallSlots {
  const endpoints = new Map<string, { used: number; waiting: (() => void)[] }>();
  return {
    async acquire(endpointId) {
      const slots = endpoints.get(endpointId) ?? { used: 0, waiting: [] };
      endpoints.set(endpointId, slots);
      if (slots.used < limit()) slots.used += 1;
      // whoever gives a slot back hands it on
      else await new Promise<void>((resolve) => slots.waiting.push(resolve));
      return () => {
        const next = slots.used <= limit() ? slots.waiting.shift() : undefined;
        if (next) return next();
        slots.used -= 1;
        if (slots.used === 0 && slots.waiting.length === 0) endpoints.delete(endpointId);
      };
    },
  };
}
