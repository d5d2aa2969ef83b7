import { useSearchParams } from 'wouter-preact';
import { isUtc } from './format.ts';

/** A value in the query of the page's URL: links to the page preserve it. */
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
          // a changed filter resets to the first page
          if (name !== 'offset') after.delete('offset');
          after.delete('cursor');
          return after;
        },
        { replace: true },
      ),
  ];
}

/** The offset of a list, in the query of the page's URL. */
export function useOffset(): [number, (value: number) => void] {
  const [text, set] = useParam('offset');
  const value = Number.parseInt(text, 10);
  return [Number.isInteger(value) && value > 0 ? value : 0, (offset) => set(offset === 0 ? '' : String(offset))];
}

/** The cursor of a list, in the query of the page's URL; the browser's back button returns to the previous page. */
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

/** Converts the value of a `datetime-local` input for the API, in the zone that is shown; undefined: empty. */
export function isoOf(local: string): string | undefined {
  const at = new Date(isUtc() && local !== '' ? `${local}Z` : local);
  return Number.isNaN(at.getTime()) ? undefined : at.toISOString();
}

/** Converts a time to the value of a `datetime-local` input, to the minute, in the zone that is shown. */
export function localOf(at: Date): string {
  const shifted = isUtc() ? at : new Date(at.getTime() - at.getTimezoneOffset() * 60_000);
  return shifted.toISOString().slice(0, 16);
}

type Given<T> = { [K in keyof T]?: Exclude<T[K], undefined> };

/** Omits empty values. */
export function given<T extends Record<string, string | number | boolean | undefined>>(values: T): Given<T> {
  return Object.fromEntries(
    Object.entries(values).filter(([, value]) => value !== undefined && value !== ''),
  ) as Given<T>;
}
