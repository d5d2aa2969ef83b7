import { useEffect, useState } from 'preact/hooks';

const PAUSE_MS = 250;

/** The value, once it has not changed for a moment: a search is not made for every letter. */
export function useDebounced<T>(value: T): T {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), PAUSE_MS);
    return () => clearTimeout(timer);
  }, [value]);
  return settled;
}
