import { describe, expect, test } from '@jest/globals';
import { readDate } from '../../src/mime/read/dates.ts';

const NOW = Date.parse('2024-06-01T00:00:00Z');

describe('a Date header is read', () => {
  test.each([
    ['Tue, 5 Mar 2024 09:15:30 +0100', '2024-03-05T08:15:30.000Z'],
    ['Tue, 05 Mar 2024 09:15:30 -0000 (UTC)', '2024-03-05T09:15:30.000Z'],
    ['5 Mar 2024 09:15 GMT', '2024-03-05T09:15:00.000Z'],
    ['Tue, 5 Mar 24 09:15:30 EST', '2024-03-05T14:15:30.000Z'],
    ['Tue, 5 Mar 99 09:15:30 PDT', '1999-03-05T16:15:30.000Z'],
    ['Tue,5-Mar-2024 09.15.30 +01:00', '2024-03-05T08:15:30.000Z'],
    ['Tuesday, 5 March 2024 9:15:30 CEST', '2024-03-05T07:15:30.000Z'],
    ['Tue Mar  5 09:15:30 2024', '2024-03-05T09:15:30.000Z'],
    ['Tue Mar  5 09:15:30 UTC 2024', '2024-03-05T09:15:30.000Z'],
    ['2024-03-05T09:15:30+01:00', '2024-03-05T08:15:30.000Z'],
    ['2024-03-05 09:15:30', '2024-03-05T09:15:30.000Z'],
    ['Tue, 5 Mar 2024 23:59:60 +0000', '2024-03-06T00:00:00.000Z'],
    ['Mon, 3 Jun 2024 00:00:00 +0200', '2024-06-02T22:00:00.000Z'],
  ])('%s', (value, expected) => {
    expect(readDate(value, NOW)?.toISOString()).toBe(expected);
  });
});

describe('a Date header is rejected', () => {
  test.each([
    '',
    'yesterday',
    'foo 1',
    'Tue, 45 Mar 2024 09:15:30 +0100',
    'Tue, 5 Foo 2024 09:15:30 +0100',
    'Tue, 5 Mar 2024 25:15:30 +0100',
    'Wed, 31 Dec 1969 23:59:59 +0000',
    'Thu, 1 Jan 1900 00:00:00 +0000',
    'Tue, 5 Jun 2024 09:15:30 +0100',
    'Tue, 5 Mar 9999 09:15:30 +0100',
    `${'9'.repeat(5000)} Mar 2024`,
  ])('%s', (value) => {
    expect(readDate(value, NOW)).toBeNull();
  });
});
