import ICAL from 'ical.js';
import type { Calendar } from '../../contract/email.ts';
import { decodeBytes, storable } from './charsets.ts';
import type { Part } from './part.ts';
import { readStart } from './open-source.ts';

/** Bytes; larger calendars are not invitations. */
const MAX_BYTES = 256 * 1024;
const MAX_ATTENDEES = 500;
const MAX_TEXT = 1000;

/** The first event of a mail's text/calendar part (RFC 5545, RFC 6047); null when none can be read. */
export function readCalendar(parts: readonly Part[]): Calendar | null {
  const part =
    parts.find(({ mime }) => mime === 'text/calendar') ??
    parts.find(({ mime, filename }) => mime === 'application/ics' || (filename ?? '').toLowerCase().endsWith('.ics'));
  if (!part || part.size === 0 || part.size > MAX_BYTES) return null;
  try {
    return readEvent(decodeBytes(readStart(part.content, MAX_BYTES), part.charset ?? 'utf-8'));
  } catch {
    return null;
  }
}

function readEvent(text: string): Calendar | null {
  const root = new ICAL.Component(ICAL.parse(text) as unknown[]);
  const component = root.getFirstSubcomponent('vevent');
  if (!component) return null;
  if (!isBounded(root, component)) return null;
  const method = root.getFirstPropertyValue('method');
  const event = new ICAL.Event(component);
  const attendees = component.getAllProperties('attendee').slice(0, MAX_ATTENDEES);
  const organizer = component.getFirstProperty('organizer');
  return {
    method: typeof method === 'string' ? short(method).toUpperCase() : null,
    uid: event.uid ? short(event.uid) : null,
    start: component.hasProperty('dtstart') ? momentOf(event.startDate) : null,
    end: component.hasProperty('dtend') || component.hasProperty('duration') ? momentOf(event.endDate) : null,
    organizer: organizer ? addressOf(organizer) : null,
    attendees: attendees.flatMap((attendee) => {
      const address = addressOf(attendee);
      const status = attendee.getFirstParameter('partstat');
      return address === null ? [] : [{ address, status: status ? short(status).toUpperCase() : null }];
    }),
  };
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

/** A day of the calendar, a moment in UTC, or a local time whose zone the invitation does not name. */
function momentOf(time: ICAL.Time): string | null {
  if (time.isDate) return time.toString();
  const isFloating = time.zone === ICAL.Timezone.localTimezone;
  return isFloating ? time.toString() : time.toJSDate().toISOString();
}

function addressOf(property: ICAL.Property): string | null {
  const value = property.getFirstValue();
  if (typeof value !== 'string') return null;
  return short(value.replace(/^mailto:/i, '')) || null;
}

function short(text: string): string {
  return storable(text.trim().slice(0, MAX_TEXT));
}
