import type { EventType } from './events.ts';

/** An event as it is stored. */
export interface StoredEvent {
  id: string;
  type: EventType;
  createdAt: Date;
  accountId: string;
  sequence: number;
  /** JSON text, made once when the event was recorded */
  data: string;
}

/**
 * The body of the call that tells an endpoint of an event (SPEC "Envelope"). Put together from stored pieces in a fixed
 * order, so that every try sends the same bytes.
 */
export function envelopeText(event: StoredEvent, endpointId: string): string {
  const head = JSON.stringify({
    object: 'Event',
    id: event.id,
    type: event.type,
    created_at: event.createdAt.toISOString(),
    account_id: event.accountId,
    endpoint_id: endpointId,
    sequence: event.sequence,
  });
  return `${head.slice(0, -1)},"data":${event.data}}`;
}
