import { useEffect, useRef, useState } from 'preact/hooks';
import { api, BASE, type ListedEvent, take } from '../api/client.ts';
import { EVENT_TYPES } from '../pages/event-types.ts';

/** After this time a stream that was refused is opened again, ms; the browser itself repeats lost connections alone. */
const AGAIN_MS = 5_000;

/**
 * Follows the event stream and passes each event to `seen`; returns whether the stream is connected. A hidden page has none: over
 * HTTP/1.1 browsers open six connections to a server, and pages in other tabs need one to load.
 */
export function useEvents(query: string, seen: (event: ListedEvent) => void): boolean {
  const [isOpen, setOpen] = useState(false);
  const handler = useRef(seen);
  handler.current = seen;
  useEffect(() => {
    let source: EventSource | undefined;
    let again: ReturnType<typeof setTimeout> | undefined;
    const close = () => {
      clearTimeout(again);
      source?.close();
      source = undefined;
      setOpen(false);
    };
    const open = () => {
      const opened = new EventSource(`${BASE}/api/v1/webhooks/events/stream${query}`);
      source = opened;
      opened.onopen = () => setOpen(true);
      opened.onerror = () => {
        setOpen(false);
        if (opened.readyState === EventSource.CLOSED) void reopen(opened);
      };
      for (const type of EVENT_TYPES) {
        opened.addEventListener(type, ({ data }: MessageEvent<string>) =>
          handler.current(JSON.parse(data) as ListedEvent),
        );
      }
    };
    /** Opens a stream that was refused again, once there is a session: asking for it makes the app show that it has ended. */
    const reopen = async (refused: EventSource) => {
      const isSignedIn = await take(api.GET('/api/v1/session')).then(
        () => true,
        () => false,
      );
      if (source === refused) again = setTimeout(() => (isSignedIn ? open() : void reopen(refused)), AGAIN_MS);
    };
    const follow = () => (document.hidden ? close() : (source ?? open()));
    follow();
    document.addEventListener('visibilitychange', follow);
    return () => {
      document.removeEventListener('visibilitychange', follow);
      close();
    };
  }, [query]);
  return isOpen;
}
