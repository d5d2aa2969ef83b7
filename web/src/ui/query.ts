import { useSearchParams } from 'wouter-preact';

/** A value in the address of the page, so that a link to it shows the same. */
export function useParam(name: string, fallback = ''): [string, (value: string) => void] {
  const [params, setParams] = useSearchParams();
  return [
    params.get(name) ?? fallback,
    (value) =>
      setParams(
        (before) => {
          const after = new URLSearchParams(before);
          if (value === fallback || value === '') after.delete(name);
          else after.set(name, value);
          // another filter begins at the first page
          if (name !== 'offset') after.delete('offset');
          after.delete('cursor');
          return after;
        },
        { replace: true },
      ),
  ];
}

/** The place in a list that pages by offset, in the address of the page. */
export function useOffset(): [number, (value: number) => void] {
  const [text, set] = useParam('offset');
  const value = Number.parseInt(text, 10);
  return [Number.isInteger(value) && value > 0 ? value : 0, (offset) => set(offset === 0 ? '' : String(offset))];
}

/** The place in a list that pages by cursor, in the address of the page; the browser goes back from it. */
export function useCursor(): [string, (cursor: string) => void] {
  const [params, setParams] = useSearchParams();
  return [
    params.get('cursor') ?? '',
    (cursor) =>
      setParams((before) => {
        const after = new URLSearchParams(before);
        if (cursor === '') after.delete('cursor');
        else after.set('cursor', cursor);
        return after;
      }),
  ];
}

/** What a `datetime-local` input holds, for the API; undefined: nothing. */
export function isoOf(local: string): string | undefined {
  const at = new Date(local);
  return Number.isNaN(at.getTime()) ? undefined : at.toISOString();
}

type Given<T> = { [K in keyof T]?: Exclude<T[K], undefined> };

/** Leaves out what is empty. */
export function given<T extends Record<string, string | number | boolean | undefined>>(values: T): Given<T> {
  return Object.fromEntries(
    Object.entries(values).filter(([, value]) => value !== undefined && value !== ''),
  ) as Given<T>;
}
