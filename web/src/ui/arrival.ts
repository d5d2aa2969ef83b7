import { useEffect, useRef } from 'preact/hooks';

/** Path of the page that was left last, below the origin. */
let left = '';

/** The link of a list to the page that was left last, such as the email that was read. */
export const isLeftLast = (link: HTMLAnchorElement): boolean => left !== '' && link.pathname === left;

/**
 * Announces each new page to screen readers and begins it there: its heading has the focus. The first page is announced by the browser.
 * One that is opened starts at its top, one that is returned to where it was.
 */
export function useArrival(location: string): void {
  const here = useRef(window.location.pathname);
  const isReturn = useRef(false);
  useEffect(() => {
    const returned = () => (isReturn.current = true);
    const opened = () => (isReturn.current = false);
    const how = { popstate: returned, pushState: opened, replaceState: opened };
    for (const [name, note] of Object.entries(how)) addEventListener(name, note, true);
    return () => {
      for (const [name, note] of Object.entries(how)) removeEventListener(name, note, true);
    };
  }, []);
  useEffect(() => {
    const now = window.location.pathname;
    if (now === here.current) return;
    left = here.current;
    here.current = now;
    if (!isReturn.current) window.scrollTo(0, 0);
    const content = document.querySelector<HTMLElement>('#content');
    // a form of the page may have the focus already
    if (document.activeElement !== content && content?.contains(document.activeElement)) return;
    if (document.querySelector('dialog[open]')) return;
    (content?.querySelector<HTMLElement>('h1') ?? content)?.focus({ preventScroll: true });
  }, [location]);
}
