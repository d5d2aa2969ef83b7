import { type RefObject } from 'preact';
import { useEffect, useRef } from 'preact/hooks';

/** Whether the component has been removed from the page: what it began may end after that, and must not lead the user away. */
export function useLeft(): RefObject<boolean> {
  const isLeft = useRef(false);
  useEffect(() => () => void (isLeft.current = true), []);
  return isLeft;
}

/** Has the browser ask before it leaves or reloads the page. Returns what ends that. */
export function holdPage(): () => void {
  const ask = (event: Event) => event.preventDefault();
  addEventListener('beforeunload', ask);
  return () => removeEventListener('beforeunload', ask);
}
