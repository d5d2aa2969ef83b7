const DATE = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'short' });
const EXACT = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' });
const DAY = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium' });
const TIME = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', second: '2-digit' });
const MOMENT = new Intl.DateTimeFormat(undefined, {
  day: 'numeric',
  month: 'short',
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
});
const NUMBER = new Intl.NumberFormat();
const RELATIVE = new Intl.RelativeTimeFormat('en', { numeric: 'auto', style: 'short' });

export const count = (value: number) => NUMBER.format(value);
export const dateOf = (iso: string) => DATE.format(new Date(iso));
export const dayOf = (iso: string) => DAY.format(new Date(iso));
export const exactDate = (iso: string) => EXACT.format(new Date(iso));
/** Day and time to the second, without the year. */
export const momentOf = (iso: string) => MOMENT.format(new Date(iso));
export const timeOf = (iso: string) => TIME.format(new Date(iso));

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
