import { useEffect, useRef, useState } from 'preact/hooks';
import { BASE, type ListedEvent } from '../api/client.ts';
import { EVENT_TYPES } from '../pages/event-types.ts';

/** After this time a stream that was refused is opened again, ms; the browser itself repeats lost connections alone. */
const AGAIN_MS = 5_000;

/** Follows the event stream and passes each event to `seen`; returns whether the stream is connected. */
export function useEvents(query: string, seen: (event: ListedEvent) => void): boolean {
  const [isOpen, setOpen] = useState(false);
  const handler = useRef(seen);
  handler.current = seen;
  useEffect(() => {
    let source: EventSource | undefined;
    let again: ReturnType<typeof setTimeout> | undefined;
    const open = () => {
      const opened = new EventSource(`${BASE}/api/v1/webhooks/events/stream${query}`);
      source = opened;
      opened.onopen = () => setOpen(true);
      opened.onerror = () => {
        setOpen(false);
        if (opened.readyState === EventSource.CLOSED) again = setTimeout(open, AGAIN_MS);
      };
      for (const type of EVENT_TYPES) {
        opened.addEventListener(type, ({ data }: MessageEvent<string>) =>
          handler.current(JSON.parse(data) as ListedEvent),
        );
      }
    };
    open();
    return () => {
      clearTimeout(again);
      source?.close();
    };
  }, [query]);
  return isOpen;
}
