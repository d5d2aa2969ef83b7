import { describe, expect, test } from '@jest/globals';
import { ianaZoneOf } from '../../../src/mime/read/time-zones.ts';
import { message, read } from '../read-fixture.ts';

const invitation = (lines: string[], before: string[] = []) =>
  read(
    message(
      ['Content-Type: text/calendar; charset=utf-8; method=REQUEST'],
      ['BEGIN:VCALENDAR', ...before, 'BEGIN:VEVENT', 'UID:1', ...lines, 'END:VEVENT', 'END:VCALENDAR', ''].join('\r\n'),
    ),
  ).then(({ calendar }) => calendar);

const times = (zone: string) => [`DTSTART;TZID=${zone}:20240705T100000`, `DTEND;TZID=${zone}:20240705T113000`];

describe('a zone that an invitation names and does not define', () => {
  test.each([
    ['Europe/Berlin', 'Europe/Berlin', '2024-07-05T08:00:00.000Z', '2024-07-05T09:30:00.000Z'],
    ['W. Europe Standard Time', 'Europe/Berlin', '2024-07-05T08:00:00.000Z', '2024-07-05T09:30:00.000Z'],
    ['Eastern Standard Time', 'America/New_York', '2024-07-05T14:00:00.000Z', '2024-07-05T15:30:00.000Z'],
    ['India Standard Time', 'Asia/Calcutta', '2024-07-05T04:30:00.000Z', '2024-07-05T06:00:00.000Z'],
    ['Tokyo Standard Time 1', 'Asia/Tokyo', '2024-07-05T01:00:00.000Z', '2024-07-05T02:30:00.000Z'],
    [
      '/citadel.org/20210210_1/America/Argentina/Salta',
      'America/Argentina/Salta',
      '2024-07-05T13:00:00.000Z',
      '2024-07-05T14:30:00.000Z',
    ],
    ['/mozilla.org/20050126_1/Europe/Paris', 'Europe/Paris', '2024-07-05T08:00:00.000Z', '2024-07-05T09:30:00.000Z'],
    ['"Europe/Berlin"', 'Europe/Berlin', '2024-07-05T08:00:00.000Z', '2024-07-05T09:30:00.000Z'],
    ['tzone://Microsoft/Utc', 'UTC', '2024-07-05T10:00:00.000Z', '2024-07-05T11:30:00.000Z'],
    ['tzone://Microsoft/Custom', null, '2024-07-05T10:00:00', '2024-07-05T11:30:00'],
    ['Nowhere Standard Time', null, '2024-07-05T10:00:00', '2024-07-05T11:30:00'],
  ])('%s', async (zone, name, start, end) => {
    expect(await invitation(times(zone))).toMatchObject({ time_zone: name, start, end });
  });

  test('is the zone of the calendar where its own name is not known', async () => {
    const event = await invitation(times('tzone://Microsoft/Custom'), ['X-WR-TIMEZONE:Europe/Berlin']);
    expect(event).toMatchObject({ time_zone: 'Europe/Berlin', start: '2024-07-05T08:00:00.000Z' });
  });

  test('counts in winter, at the change of clocks, and with a duration', async () => {
    const at = async (time: string) => (await invitation([`DTSTART;TZID=Europe/Berlin:${time}`, 'DURATION:PT1H']))!;
    expect(await at('20240105T100000')).toMatchObject({
      start: '2024-01-05T09:00:00.000Z',
      end: '2024-01-05T10:00:00.000Z',
    });
    expect((await at('20240331T013000')).start).toBe('2024-03-31T00:30:00.000Z');
    expect((await at('20240331T033000')).start).toBe('2024-03-31T01:30:00.000Z');
    // it does not exist, as clocks go from 2:00 to 3:00
    expect((await at('20240331T023000')).start).toBe('2024-03-31T01:30:00.000Z');
    // it exists twice
    expect((await at('20241027T023000')).start).toBe('2024-10-27T00:30:00.000Z');
    expect((await at('20241027T033000')).start).toBe('2024-10-27T02:30:00.000Z');
  });

  test('is that of the invitation where it defines one', async () => {
    const zone = (offset: string) => [
      ...['BEGIN:VTIMEZONE', 'TZID:tzone://Microsoft/Custom', 'BEGIN:STANDARD', 'DTSTART:19700101T000000'],
      ...[`TZOFFSETFROM:${offset}`, `TZOFFSETTO:${offset}`, 'END:STANDARD', 'END:VTIMEZONE'],
    ];
    const event = await invitation(times('tzone://Microsoft/Custom'), zone('+0530'));
    expect(event).toMatchObject({
      start: '2024-07-05T04:30:00.000Z',
      end: '2024-07-05T06:00:00.000Z',
      time_zone: null,
    });
  });

  test('may be folded', async () => {
    const event = await invitation(['DTSTART;TZID=tzone://Micro', ' soft/Utc:20240705T100000']);
    expect(event).toMatchObject({ start: '2024-07-05T10:00:00.000Z' });
  });

  test.each(['', 'x'.repeat(5_000), '/'.repeat(190), '../../etc/passwd', 'Europe/Nowhere', '__proto__', 'constructor'])(
    '%j is none',
    (name) => {
      expect(ianaZoneOf(name)).toBeNull();
    },
  );
});

describe('an event', () => {
  test('has its title, place, state and recurrence', async () => {
    const event = await invitation([
      'SUMMARY;LANGUAGE=en:Trip to Rome\\, with Ada',
      'LOCATION:Platform 7\\nMain station',
      'STATUS:confirmed',
      ...times('W. Europe Standard Time'),
      'RRULE:FREQ=WEEKLY;COUNT=10;BYDAY=FR',
      'EXDATE;TZID=W. Europe Standard Time:20240712T100000',
    ]);
    expect(event).toMatchObject({
      summary: 'Trip to Rome, with Ada',
      location: 'Platform 7\nMain station',
      status: 'CONFIRMED',
      recurrence: ['RRULE:FREQ=WEEKLY;COUNT=10;BYDAY=FR', 'EXDATE;TZID=W. Europe Standard Time:20240712T100000'],
    });
  });

  test('may have a line that is folded within a character', async () => {
    const event = ['BEGIN:VCALENDAR', 'BEGIN:VEVENT', 'UID:1', 'SUMMARY:Gr\xc3', ' \xbc\xc3\x9fe', 'END:VEVENT'];
    const body = `${event.join('\r\n')}\r\nEND:VCALENDAR\r\n`;
    const header = message(['Content-Type: text/calendar; charset=utf-8']);
    const { calendar } = await read(Buffer.concat([header, Buffer.from(body, 'latin1')]));
    expect(calendar).toMatchObject({ summary: 'Grüße' });
  });

  test('keeps the other fields where a line is no property', async () => {
    const broken = ['SUMMARY:Trip', 'a text that was not folded', '', 'RRULE:FREQ=NEVER', 'DTSTART:20240705T100000Z'];
    expect(await invitation(broken)).toMatchObject({
      ...{ summary: 'Trip', start: '2024-07-05T10:00:00.000Z', recurrence: [] },
    });
  });

  test.each(['', 'soon', '2024-07-05 10:00', '202407'])(
    'keeps the other fields where it begins at %j',
    async (time) => {
      expect(await invitation(['SUMMARY:Trip', `DTSTART:${time}`, 'DTEND:20240705T100000Z'])).toMatchObject({
        ...{ summary: 'Trip', start: null, end: '2024-07-05T10:00:00.000Z' },
      });
      expect(await invitation(['SUMMARY:Trip', `DTSTART:${time}`, 'DURATION:PT1H'])).toMatchObject({
        ...{ summary: 'Trip', start: null, end: null },
      });
    },
  );

  test.each(['DTEND:', 'DTEND:soon', 'DURATION:', 'DURATION:long'])('keeps its start beside %s', async (line) => {
    expect(await invitation(['DTSTART:20240705T100000Z', line])).toMatchObject({
      ...{ start: '2024-07-05T10:00:00.000Z', end: null },
    });
  });

  test('has the addresses of people, and none of those without', async () => {
    const event = await invitation([
      'ORGANIZER;EMAIL=o@x.y;CN=O:urn:uuid:123',
      'ATTENDEE;EMAIL="a@x.y";PARTSTAT=accepted:urn:uuid:124',
      'ATTENDEE:MAILTO:b@x.y',
      'ATTENDEE;EMAIL=none:mailto:c@x.y',
      'ATTENDEE;CN=Room 1:urn:uuid:125',
      'ATTENDEE:invalid:nomail',
    ]);
    expect(event).toMatchObject({
      organizer: 'o@x.y',
      attendees: [
        { address: 'a@x.y', status: 'ACCEPTED' },
        { address: 'b@x.y', status: null },
        { address: 'c@x.y', status: null },
      ],
    });
    expect(await invitation(['ORGANIZER:urn:uuid:123'])).toMatchObject({ organizer: null });
  });

  test('without them has null, and no recurrence', async () => {
    const event = await invitation(['DTSTART:20240705T100000Z', 'SUMMARY:']);
    expect(event).toMatchObject({ summary: null, location: null, status: null, recurrence: [], time_zone: 'UTC' });
  });

  test('that recurs is preferred to a change of one occurrence', async () => {
    const event = await invitation([
      'SUMMARY:Changed',
      'RECURRENCE-ID:20240712T100000Z',
      'DTSTART:20240712T110000Z',
      'END:VEVENT',
      'BEGIN:VEVENT',
      'UID:1',
      'SUMMARY:Weekly',
      'DTSTART:20240705T100000Z',
      'RRULE:FREQ=WEEKLY',
    ]);
    expect(event).toMatchObject({ summary: 'Weekly', recurrence: ['RRULE:FREQ=WEEKLY'] });
  });

  test('with a zone that is broken keeps its other fields', async () => {
    expect(await invitation(['SUMMARY:x', 'DTSTART;TZID=:20240705T100000'])).toMatchObject({ summary: 'x' });
  });
});
