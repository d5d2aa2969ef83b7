import { useEffect, useRef, useState } from 'preact/hooks';
import { BASE, type ListedEvent } from '../api/client.ts';
import { EVENT_TYPES } from '../pages/event-types.ts';

/** Follows the event stream and passes each event to `seen`; returns whether the stream is connected. */
export function useEvents(query: string, seen: (event: ListedEvent) => void): boolean {
  const [isOpen, setOpen] = useState(false);
  const handler = useRef(seen);
  handler.current = seen;
  useEffect(() => {
    const source = new EventSource(`${BASE}/api/v1/webhooks/events/stream${query}`);
    source.onopen = () => setOpen(true);
    source.onerror = () => setOpen(false);
    for (const type of EVENT_TYPES) {
      source.addEventListener(type, ({ data }: MessageEvent<string>) =>
        handler.current(JSON.parse(data) as ListedEvent),
      );
    }
    return () => source.close();
  }, [query]);
  return isOpen;
}
