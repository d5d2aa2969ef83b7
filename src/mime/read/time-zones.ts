import { findIana } from 'windows-iana';

/*
 * Time zones that an invitation names and does not define. Programs write names of the IANA database, of Windows, or
 * paths that end in one of the former.
 */

/** Longer names are not looked up. */
const MAX_NAME = 200;
const MAX_KNOWN = 500;

/** Formats of the zones looked up so far; null: no such zone. */
const known = new Map<string, Intl.DateTimeFormat | null>();

/** The IANA name of a time zone as invitations name it; null: unknown. */
export function ianaZoneOf(name: string): string | null {
  const bare = name.trim().replace(/^"|"$/g, '');
  if (bare === '' || bare.length > MAX_NAME) return null;
  if (/^(?:utc|gmt|z|tzone:\/\/microsoft\/utc)$/i.test(bare)) return 'UTC';
  const [ofWindows] = findIana(bare.replace(/ \d+$/, ''));
  if (ofWindows && formatOf(ofWindows)) return ofWindows;
  // `/citadel.org/20210210_1/America/Argentina/Salta`
  const parts = bare.split('/').filter(Boolean);
  const names = [3, 2, 1].filter((count) => count <= parts.length).map((count) => parts.slice(-count).join('/'));
  return names.find((each) => formatOf(each) !== null) ?? null;
}

/** The moment of a local time in a zone of `ianaZoneOf`; of a time that occurs twice, the first; ms since the epoch. */
export function momentIn(zone: string, local: { year: number; month: number; day: number; time: number }): number {
  const asUtc = Date.UTC(local.year, local.month - 1, local.day) + local.time * 1000;
  const format = formatOf(zone);
  if (!format) return asUtc;
  const candidates = [-86_400_000, 86_400_000].map((shift) => asUtc - offsetAt(format, asUtc + shift));
  const [before = asUtc, after = asUtc] = candidates;
  return [before, after].find((moment) => moment + offsetAt(format, moment) === asUtc) ?? before;
}

/** Milliseconds that clocks in a zone are ahead of UTC at a moment. */
function offsetAt(format: Intl.DateTimeFormat, moment: number): number {
  const part = Object.fromEntries(format.formatToParts(moment).map(({ type, value }) => [type, Number(value)]));
  const { year = 0, month = 1, day = 1, hour = 0, minute = 0, second = 0 } = part;
  return Date.UTC(year, month - 1, day, hour, minute, second) - Math.floor(moment / 1000) * 1000;
}

function formatOf(zone: string): Intl.DateTimeFormat | null {
  const found = known.get(zone);
  if (found !== undefined) return found;
  const format = newFormat(zone);
  if (known.size >= MAX_KNOWN) known.clear();
  known.set(zone, format);
  return format;
}

function newFormat(timeZone: string): Intl.DateTimeFormat | null {
  const numeric = 'numeric';
  const day = { year: numeric, month: numeric, day: numeric } as const;
  const time = { hour: numeric, minute: numeric, second: numeric, hourCycle: 'h23' } as const;
  try {
    return new Intl.DateTimeFormat('en-US', {
      timeZone,
      calendar: 'gregory',
      numberingSystem: 'latn',
      ...day,
      ...time,
    });
  } catch {
    return null;
  }
}
