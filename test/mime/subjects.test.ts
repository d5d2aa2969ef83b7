import { describe, expect, test } from '@jest/globals';
import { baseSubjectOf } from '../../src/mime/threads.ts';
import { expectCpuBelow } from '../helpers/assert/cpu.ts';

describe('base subject', () => {
  test.each([
    ['Lunch', 'Lunch', false],
    ['  Lunch \t on  Friday ', 'Lunch on Friday', false],
    ['Re: Lunch', 'Lunch', true],
    ['RE:Lunch', 'Lunch', true],
    ['re : Re: RE: Lunch', 'Lunch', true],
    ['Re[2]: Lunch', 'Lunch', true],
    ['Re(3): Lunch', 'Lunch', true],
    ['Re^4: Lunch', 'Lunch', true],
    ['[team] Re: [team] Lunch', 'Lunch', true],
    ['Re: [team] Lunch', 'Lunch', true],
    ['[team]', '[team]', false],
    ['Fwd: Lunch', 'Lunch', false],
    ['Fw: Re: Lunch', 'Lunch', false],
    ['Re: Fwd: Lunch', 'Lunch', true],
    ['[Fwd: Lunch]', 'Lunch', false],
    ['Lunch (fwd)', 'Lunch', false],
    ['AW: Mittag', 'Mittag', true],
    ['Antw: Lunch', 'Lunch', true],
    ['WG: Mittag', 'Mittag', false],
    ['SV: Lunsj', 'Lunsj', true],
    ['VS: Lounas', 'Lounas', true],
    ['RIF: Pranzo', 'Pranzo', true],
    ['Odp: Obiad', 'Obiad', true],
    ['TR: Déjeuner', 'Déjeuner', false],
    ['回复：午餐', '午餐', true],
    ['转发: 午餐', '午餐', false],
    ['답장: 점심', '점심', true],
    ['RES: Almoço', 'Almoço', true],
    ['Rebooting: how', 'Rebooting: how', false],
    ['Read: Hello', 'Read: Hello', false],
    ['Re:', '', true],
    ['', '', false],
  ])('%j is %j, reply %j', (subject, base, isReply) => {
    expect(baseSubjectOf(subject)).toEqual({ base, isReply });
  });

  test('is found quickly in hostile subjects', () => {
    const subjects = ['Re: '.repeat(250_000), '['.repeat(1_000_000), '[a]'.repeat(300_000), ' '.repeat(1_000_000)];
    expectCpuBelow(1_000, () => subjects.map(baseSubjectOf));
  });
});
