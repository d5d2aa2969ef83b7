import { useEffect, useState } from 'preact/hooks';

const PAUSE_MS = 250;

/** The value after it has not changed for a moment, to avoid a search per keystroke. */
export function useDebounced<T>(value: T): T {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), PAUSE_MS);
    return () => clearTimeout(timer);
  }, [value]);
  return settled;
}
