import { useState } from 'preact/hooks';

/**
 * The dialog that a page shows, one at a time. `close` and `next` are those of the dialog that is shown when they are passed on: a
 * form whose call ends late changes no dialog that was opened since.
 */
export function useShown<T>() {
  const [open, setOpen] = useState<{ shown: T }>();
  return {
    shown: open?.shown,
    show: (shown: T) => setOpen({ shown }),
    close: () => setOpen((now) => (now === open ? undefined : now)),
    /** Shows another dialog in its place. */
    next: (shown: T) => setOpen((now) => (now === open ? { shown } : now)),
  };
}
