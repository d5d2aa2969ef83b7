import ICAL from 'ical.js';
import type { Calendar } from '../../contract/email.ts';
import { storable } from '../../runtime/storable.ts';
import { decodeBytes } from './charsets.ts';
import type { Part } from './part.ts';
import { readStart } from './open-source.ts';
import { ianaZoneOf, momentIn } from './time-zones.ts';

/** Bytes; larger calendars are not invitations. */
const MAX_BYTES = 256 * 1024;
const MAX_ATTENDEES = 500;
const MAX_TEXT = 1000;
const MAX_RULES = 50;

/** A zone like `tzone://Microsoft/Custom` without the quotes that its colon needs (RFC 5545 3.2). */
const UNQUOTED_ZONE = /^([A-Z-]+(?:;[^":;\r\n]{0,200}){0,5};TZID=)([a-z]{1,10}:\/\/[^":;\s]{0,200})(?=[:;])/gim;

/** The first event of a mail's text/calendar part (RFC 5545, RFC 6047); null when none can be read. */
export function readCalendar(parts: readonly Part[]): Calendar | null {
  const part =
    parts.find(({ mime }) => mime === 'text/calendar') ??
    parts.find(({ mime, filename }) => mime === 'application/ics' || (filename ?? '').toLowerCase().endsWith('.ics'));
  if (!part || part.size === 0 || part.size > MAX_BYTES) return null;
  try {
    return readEvent(decodeBytes(unfolded(readStart(part.content, MAX_BYTES)), part.charset ?? 'utf-8'));
  } catch {
    return null;
  }
}

/** Lines may be folded within a character (RFC 5545 3.1). */
function unfolded(bytes: Buffer): Buffer {
  return Buffer.from(bytes.toString('latin1').replace(/\r?\n[ \t]/g, ''), 'latin1');
}

/** Without the lines that are none of the grammar, where there are any: one would refuse all. */
function parsed(text: string): ICAL.Component {
  const parse = (lines: string) => new ICAL.Component(ICAL.parse(lines) as unknown[]);
  try {
    return parse(text);
  } catch {
    return parse(text.split(/\r?\n/).filter(isLine).join('\r\n'));
  }
}

function isLine(line: string): boolean {
  return /^(begin|end):/i.test(line) || orNull(() => ICAL.parse.property(line) as unknown) !== null;
}

function readEvent(text: string): Calendar | null {
  const quoted = text.replace(/\r?\n[ \t]/g, '').replace(UNQUOTED_ZONE, '$1"$2"');
  const root = parsed(quoted);
  const events = root.getAllSubcomponents('vevent');
  const component = events.find((each) => !each.hasProperty('recurrence-id')) ?? events[0];
  if (!component) return null;
  dropUnreadable(component);
  if (!isBounded(root, component)) return null;
  const method = root.getFirstPropertyValue('method');
  const event = new ICAL.Event(component);
  const attendees = component.getAllProperties('attendee').slice(0, MAX_ATTENDEES);
  const organizer = component.getFirstProperty('organizer');
  const [startZone, endZone] = zonesOf(root, component);
  return {
    method: typeof method === 'string' ? short(method).toUpperCase() : null,
    uid: event.uid ? short(event.uid) : null,
    summary: textOf(component, 'summary'),
    location: textOf(component, 'location'),
    status: textOf(component, 'status')?.toUpperCase() ?? null,
    start: component.hasProperty('dtstart') ? orNull(() => momentOf(event.startDate, startZone)) : null,
    end: hasEnd(component) ? orNull(() => momentOf(event.endDate, endZone)) : null,
    time_zone: startZone,
    recurrence: recurrenceOf(component),
    organizer: organizer ? addressOf(organizer) : null,
    attendees: attendees.flatMap((attendee) => {
      const address = addressOf(attendee);
      const status = attendee.getFirstParameter('partstat');
      return address === null ? [] : [{ address, status: status ? short(status).toUpperCase() : null }];
    }),
  };
}

/** Drops times without a meaning, such as an empty one. */
function dropUnreadable(event: ICAL.Component): void {
  for (const property of ['dtstart', 'dtend', 'duration'].flatMap((name) => event.getAllProperties(name))) {
    if (orNull(() => property.getFirstValue()) === null) event.removeProperty(property);
  }
}

const hasEnd = (event: ICAL.Component) => event.hasProperty('dtend') || event.hasProperty('duration');

function orNull<T>(read: () => T): T | null {
  try {
    return read();
  } catch {
    return null;
  }
}

/** Longer events are ignored, in seconds: ten years. */
const MAX_DURATION_S = 10 * 366 * 86_400;
const MAX_ZONE_RULES = 4;

/** Whether reading it is cheap: ical.js expands the rules of a zone, and counts the weeks of a duration one by one. */
function isBounded(root: ICAL.Component, event: ICAL.Component): boolean {
  const observances = root.getAllSubcomponents('vtimezone').flatMap((zone) => zone.getAllSubcomponents());
  const rules = observances.flatMap((one) => one.getAllProperties('rrule')).map((rule) => String(rule.getFirstValue()));
  const isYearly = (rule: string) =>
    /FREQ=YEARLY/i.test(rule) && !/BY(SECOND|MINUTE|HOUR|YEARDAY|WEEKNO)|INTERVAL=0/i.test(rule);
  if (observances.length > 50 || rules.length > 50 || !rules.every(isYearly)) return false;
  if (observances.some((one) => one.getAllProperties('rrule').length > MAX_ZONE_RULES)) return false;
  const duration = event.getFirstPropertyValue('duration');
  return !(duration instanceof ICAL.Duration) || Math.abs(duration.toSeconds()) <= MAX_DURATION_S;
}

/**
 * A day of the calendar, a moment in UTC, or a local time whose zone the invitation does not name. `zone`: of times whose
 * zone it names and does not define.
 */
function momentOf(time: ICAL.Time, zone: string | null): string | null {
  if (time.isDate) return time.toString();
  if (time.zone !== ICAL.Timezone.localTimezone) return time.toJSDate().toISOString();
  if (zone === null) return time.toString();
  const { year, month, day, hour, minute, second } = time;
  return new Date(momentIn(zone, { year, month, day, time: hour * 3600 + minute * 60 + second })).toISOString();
}

/** The IANA names of the zones of start and end; X-WR-TIMEZONE is that of zones which are not known. */
function zonesOf(root: ICAL.Component, event: ICAL.Component): [string | null, string | null] {
  const general = root.getFirstPropertyValue('x-wr-timezone');
  const zoneOf = (name: string): string | null => {
    const property = event.getFirstProperty(name);
    const zone = property?.getFirstParameter('tzid');
    if (zone) return ianaZoneOf(zone) ?? (typeof general === 'string' ? ianaZoneOf(general) : null);
    const value = property?.getFirstValue();
    return value instanceof ICAL.Time && value.zone === ICAL.Timezone.utcTimezone ? 'UTC' : null;
  };
  const start = zoneOf('dtstart');
  return [start, event.hasProperty('dtend') ? zoneOf('dtend') : start];
}

function textOf(event: ICAL.Component, name: string): string | null {
  const value = event.getFirstPropertyValue(name);
  return (typeof value === 'string' && short(value)) || null;
}

/** How an event recurs, as its lines (RFC 5545 3.8.5). */
function recurrenceOf(event: ICAL.Component): string[] {
  const properties = ['rrule', 'rdate', 'exdate'].flatMap((name) => event.getAllProperties(name));
  return properties.slice(0, MAX_RULES).map((property) => short(property.toICALString()));
}

/** The address of a person, from EMAIL where the value is another URI (RFC 7986 6.2). */
function addressOf(property: ICAL.Property): string | null {
  const addresses = [property.getFirstParameter('email'), property.getFirstValue()].flatMap((value) =>
    typeof value === 'string' && value.includes('@') ? [short(value.replace(/^\s*mailto:/i, ''))] : [],
  );
  return addresses[0] ?? null;
}

function short(text: string): string {
  return storable(text.trim().slice(0, MAX_TEXT));
}
