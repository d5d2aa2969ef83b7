import { type RefObject } from 'preact';
import { useEffect, useRef } from 'preact/hooks';

/** Whether the component has been removed from the page: what it began may end after that. */
export function useLeft(): RefObject<boolean> {
  const isLeft = useRef(false);
  useEffect(() => () => void (isLeft.current = true), []);
  return isLeft;
}
