/** How times are shown: relative to now where it is near, or exact in the zone of the browser or in UTC. */
export const TIMES = { relative: 'Relative times', local: 'Local times', utc: 'UTC times' } as const;
export type Times = keyof typeof TIMES;

const KEY = 'times';
const stored = localStorage.getItem(KEY) ?? '';
let times: Times = stored in TIMES ? (stored as Times) : 'relative';
let formats = formatsOf(times);

export const timesShown = (): Times => times;
export const isUtc = (): boolean => times === 'utc';

/** What is on the page has to be rendered again. */
export function showTimes(value: Times): void {
  localStorage.setItem(KEY, value);
  times = value;
  formats = formatsOf(value);
}

function formatsOf(shown: Times) {
  const zone = shown === 'utc' ? { timeZone: 'UTC' } : {};
  const format = (options: Intl.DateTimeFormatOptions) => new Intl.DateTimeFormat(undefined, { ...zone, ...options });
  const seconds = { hour: '2-digit', minute: '2-digit', second: '2-digit' } as const;
  return {
    date: format({ dateStyle: 'medium', timeStyle: 'short' }),
    exact: format({ dateStyle: 'medium', timeStyle: shown === 'utc' ? 'long' : 'medium' }),
    moment: format({ day: 'numeric', month: 'short', ...seconds }),
    momentInYear: format({ day: 'numeric', month: 'short', year: 'numeric', ...seconds }),
    year: format({ year: 'numeric' }),
    day: format({ dateStyle: 'medium' }),
    clock: format({ hour: '2-digit', minute: '2-digit' }),
  };
}

const NUMBER = new Intl.NumberFormat();
const RELATIVE = new Intl.RelativeTimeFormat('en', { numeric: 'auto', style: 'short' });

export const count = (value: number) => NUMBER.format(value);
export const dateOf = (iso: string) => formats.date.format(new Date(iso));
export const dayOf = (iso: string) => formats.day.format(new Date(iso));
export const exactDate = (iso: string) => formats.exact.format(new Date(iso));
/** Day and time to the second, with the year when it is another than now. */
export function momentOf(iso: string): string {
  const at = new Date(iso);
  const isThisYear = formats.year.format(at) === formats.year.format(new Date());
  return (isThisYear ? formats.moment : formats.momentInYear).format(at);
}
/** Hour and minute. */
export const clockOf = (at: Date) => formats.clock.format(at);

const STEPS: [Intl.RelativeTimeFormatUnit, number][] = [
  ['day', 86_400],
  ['hour', 3_600],
  ['minute', 60],
  ['second', 1],
];

/** Formats a time as `5 min. ago` or `in 2 hr.`, and as a date beyond a month. */
export function fromNow(iso: string, now = Date.now()): string {
  const seconds = Math.round((new Date(iso).getTime() - now) / 1000);
  if (Math.abs(seconds) > 30 * 86_400) return dateOf(iso);
  const [unit, size] = STEPS.find(([, step]) => Math.abs(seconds) >= step) ?? ['second', 1];
  return RELATIVE.format(Math.round(seconds / size), unit);
}

/** Formats bytes as `12.3 kB`. */
export function bytes(value: number): string {
  const units = ['B', 'kB', 'MB', 'GB'];
  let index = 0;
  let size = value;
  while (size >= 1000 && index < units.length - 1) {
    size /= 1000;
    index += 1;
  }
  return `${index === 0 ? size : size.toFixed(1)} ${units[index]}`;
}
