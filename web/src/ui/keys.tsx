import { useEffect, useState } from 'preact/hooks';
import { useLocation } from 'wouter-preact';
import { isLeftLast } from './arrival.ts';
import { Dialog } from './dialog.tsx';

/** Within this time the second key of a pair follows, ms. */
const PAIR_MS = 1_500;
const KEY = 'keys';

/** What a row of any list is. */
const ROWS = '#content .emails > li, #content .conversation > li, #content tbody tr';

/** What the key r clicks: in a conversation that of the focused email, or of the last. */
const REPLIES = '#content [aria-keyshortcuts="r"]';

const PAGE_KEYS: [string, string][] = [
  ['j, k', 'next row, previous row; Enter opens it'],
  ['x', 'tick the row'],
  ['r', 'reply, or retry'],
  ['u', 'back to the list'],
  ['/', 'search'],
  ['Ctrl K', 'find anything'],
  ['?', 'this list'],
];

/** Keys of the whole dashboard; `sections`: their paths by the key that follows g. Returns how the list of keys is opened. */
export function useKeys(sections: ReadonlyMap<string, { href: string; name: string }>) {
  const [, navigate] = useLocation();
  const [isListed, setListed] = useState(false);
  const [isOn, setOn] = useState(() => localStorage.getItem(KEY) !== 'off');
  useEffect(() => {
    if (!isOn) return;
    let pairUntil = 0;
    const press = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || isBusy(event.target)) return;
      const section = event.timeStamp < pairUntil ? sections.get(event.key) : undefined;
      pairUntil = event.key === 'g' ? event.timeStamp + PAIR_MS : 0;
      if (section) navigate(section.href);
      else if (event.key === '?') setListed(true);
      else if (!act(event.key)) return;
      event.preventDefault();
    };
    document.addEventListener('keydown', press);
    return () => document.removeEventListener('keydown', press);
  }, [isOn, sections, navigate]);
  const turn = (on: boolean) => {
    localStorage.setItem(KEY, on ? 'on' : 'off');
    setOn(on);
  };
  return {
    open: () => setListed(true),
    dialog: isListed && <KeyList sections={sections} isOn={isOn} turn={turn} close={() => setListed(false)} />,
  };
}

/** Where keys write text, or a dialog is open. */
const isBusy = (target: EventTarget | null) =>
  (target instanceof HTMLElement && target.matches('input:not([type="checkbox"]), textarea, select')) ||
  document.querySelector('dialog[open]') !== null;

/** Does what a key stands for on the page that is shown; false: nothing. */
function act(key: string): boolean {
  const rows = [...document.querySelectorAll<HTMLElement>(ROWS)];
  const here = rows.findIndex((row) => row.contains(document.activeElement));
  switch (key) {
    case 'j':
    case 'k': {
      // after a return to the list, from the row that was opened
      const from = here >= 0 ? here : rows.findIndex((row) => [...row.querySelectorAll('a')].some(isLeftLast));
      const next = key === 'j' ? from + 1 : Math.max(0, from - 1);
      const row = rows[Math.min(next, rows.length - 1)];
      return focus(row?.querySelector<HTMLElement>('a') ?? row?.querySelector<HTMLElement>('button'));
    }
    case 'x':
      return click(rows[here]?.querySelector<HTMLElement>('input[type="checkbox"]'));
    case 'r':
      return click(
        rows[here]?.querySelector<HTMLElement>(REPLIES) ?? [...document.querySelectorAll<HTMLElement>(REPLIES)].at(-1),
      );
    case 'u':
      return click(document.querySelector<HTMLElement>('#content .crumb a'));
    case '/':
      return focus(document.querySelector<HTMLElement>('#content input[type="search"]'));
    default:
      return false;
  }
}

function focus(element: HTMLElement | null | undefined): boolean {
  element?.focus();
  element?.scrollIntoView({ block: 'nearest' });
  return element !== null && element !== undefined;
}

function click(element: HTMLElement | null | undefined): boolean {
  element?.click();
  return element !== null && element !== undefined;
}

function KeyList({
  sections,
  isOn,
  turn,
  close,
}: {
  sections: ReadonlyMap<string, { name: string }>;
  isOn: boolean;
  turn: (on: boolean) => void;
  close: () => void;
}) {
  const keys = [...PAGE_KEYS, ...[...sections].map(([key, { name }]) => [`g ${key}`, name] as const)];
  return (
    <Dialog title="Keyboard shortcuts" close={close}>
      <dl class="facts">
        {keys.map(([key, does]) => (
          <>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{does}</dd>
          </>
        ))}
      </dl>
      <label class="check">
        <input type="checkbox" checked={isOn} onChange={() => turn(!isOn)} />
        Use them in this browser
      </label>
    </Dialog>
  );
}
