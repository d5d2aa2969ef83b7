import { withoutComments } from './field-value.ts';

const MONTHS = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec'];

/** Obsolete zones of RFC 5322 4.3, in hours. */
const ZONES: Record<string, number> = { EST: -5, EDT: -4, CST: -6, CDT: -5, MST: -7, MDT: -6, PST: -8, PDT: -7 };
const CENTRAL_EUROPE: Record<string, number> = { CET: 1, MET: 1, CEST: 2, MEST: 2, BST: 1, JST: 9 };

/** `1 Jan 2024 10:00:00 +0100`, day names, comments and odd separators around it. */
const RFC_5322 =
  /(\d{1,2})[\s\-,.]+([a-z]{3})[a-z]*[\s\-,.]+(\d{2,4})[\s,]+(\d{1,2})[:.](\d{2})(?:[:.](\d{2}))?(?:[.,]\d+)?\s*((?:(?:GMT|UTC?)\s?)?[+-]\s?\d{1,2}:?\d{2}|[a-z]{1,5})?/i;
/** `Mon Jan  1 10:00:00 2024`, as asctime(3) writes. */
const ASCTIME =
  /([a-z]{3})\s+(\d{1,2})\s+(\d{1,2}):(\d{2}):(\d{2})\s+(?:([a-z]{1,5}|(?:GMT|UTC?)?[+-]\d{2}:?\d{2})\s+)?(\d{4})/i;
const ISO =
  /(\d{4})-(\d{2})-(\d{2})[T\s](\d{2}):(\d{2})(?::(\d{2}))?(?:[.,]\d+)?\s*(Z|(?:GMT|UTC?)?[+-]\d{2}:?\d{2})?/i;

/** How far ahead a sender's clock may be, in milliseconds. */
const MAX_AHEAD_MS = 48 * 3600 * 1000;

/**
 * The moment that a Date header names (RFC 5322 3.3, and other forms in use). Null when it cannot be read or is not
 * credible: before 1970 or more than two days ahead of `now`. mailparser returns the present for an unreadable date.
 */
export function readDate(value: string, now = Date.now()): Date | null {
  // comments and blanks may be anywhere (RFC 5322 3.2.2)
  const text = withoutComments(value.slice(0, 200)).replace(/\s*:\s*/g, ':');
  const at = fromRfc5322(text) ?? fromAsctime(text) ?? fromIso(text);
  return at === null || Number.isNaN(at) || at < 0 || at > now + MAX_AHEAD_MS ? null : new Date(at);
}

function fromRfc5322(text: string): number | null {
  const match = RFC_5322.exec(text);
  if (!match) return null;
  const [, day, month, year, hour, minute, second, zone] = match;
  return moment({ year: fullYear(year), month: monthOf(month), day, hour, minute, second, zone });
}

function fromAsctime(text: string): number | null {
  const match = ASCTIME.exec(text);
  if (!match) return null;
  const [, month, day, hour, minute, second, zone, year] = match;
  return moment({ year: Number(year), month: monthOf(month), day, hour, minute, second, zone });
}

function fromIso(text: string): number | null {
  const match = ISO.exec(text);
  if (!match) return null;
  const [, year, month, day, hour, minute, second, zone] = match;
  return moment({ year: Number(year), month: Number(month) - 1, day, hour, minute, second, zone });
}

type Digits = string | undefined;

interface DateFields {
  year: number;
  /** 0 to 11 */
  month: number;
  day: Digits;
  hour: Digits;
  minute: Digits;
  second: Digits;
  zone: Digits;
}

/** Milliseconds since 1970; NaN when a field is out of range. */
function moment({ year, month, day, hour, minute, second, zone }: DateFields): number {
  const [d, h, m, s] = [Number(day), Number(hour), Number(minute), Number(second ?? 0)];
  if (month < 0 || month > 11 || d < 1 || d > 31 || h > 23 || m > 59 || s > 60) return Number.NaN;
  return Date.UTC(year, month, d, h, m, s) - offsetMs(zone);
}

/** Two digits: 50 to 99 mean 1950 to 1999; three: years since 1900 (RFC 5322 4.3). */
function fullYear(digits: Digits): number {
  const year = Number(digits);
  if (digits?.length === 4) return year;
  return year < 50 ? 2000 + year : 1900 + year;
}

function monthOf(name: Digits): number {
  return MONTHS.indexOf((name ?? '').toLowerCase());
}

/** Unknown zones count as UTC (RFC 5322 4.3). */
function offsetMs(zone: Digits): number {
  const numeric = /^(?:GMT|UTC?)?\s?([+-])\s?(\d{1,2}):?(\d{2})$/i.exec(zone ?? '');
  if (!numeric) {
    const name = (zone ?? '').toUpperCase();
    return (ZONES[name] ?? CENTRAL_EUROPE[name] ?? 0) * 3600_000;
  }
  const minutes = Number(numeric[2]) * 60 + Number(numeric[3]);
  return (numeric[1] === '-' ? -1 : 1) * (minutes > 24 * 60 ? 0 : minutes) * 60_000;
}
