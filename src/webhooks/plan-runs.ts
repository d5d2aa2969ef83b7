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
