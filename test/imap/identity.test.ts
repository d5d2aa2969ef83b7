import { expect, test } from '@jest/globals';
import { identityOf, weakIdentityOf } from '../../src/imap/identity.ts';

const facts = { messageId: '<a@b>', size: 100, internalDate: new Date('2024-03-05T08:15:30.000Z') };

test('a message has the same identity regardless of how its parts are written', () => {
  const same = [
    { ...facts },
    { ...facts, messageId: 'a@b' },
    { ...facts, messageId: ' <a@b> ' },
    { ...facts, internalDate: '2024-03-05T09:15:30+01:00' },
    { ...facts, internalDate: new Date('2024-03-05T08:15:30.999Z') },
    { ...facts, extra: ['subject', 'from', 'date'] },
  ];
  expect(new Set(same.map(identityOf)).size).toBe(1);
  expect(identityOf(facts)).toMatch(/^[\w-]{22}$/);
});

test('a different size, date or Message-ID gives a different identity', () => {
  const different = [
    facts,
    { ...facts, size: 101 },
    { ...facts, messageId: '<c@d>' },
    { ...facts, internalDate: '2024-03-05T08:15:31Z' },
    { ...facts, internalDate: 'no date' },
    { ...facts, messageId: null },
  ];
  expect(new Set(different.map(identityOf)).size).toBe(different.length);
});

test('without a Message-ID the extra headers tell messages apart', () => {
  const bare = { messageId: null, size: 5, internalDate: facts.internalDate };
  const one = identityOf({ ...bare, extra: ['Hi', 'a@b', null] });
  expect(identityOf({ ...bare, messageId: ' <> ', extra: ['Hi ', ' a@b', undefined] })).toBe(one);
  expect(identityOf({ ...bare, extra: ['Ho', 'a@b', null] })).not.toBe(one);
});

test('the weak identity ignores the date and never equals a full one', () => {
  expect(weakIdentityOf(facts)).toBe(weakIdentityOf({ messageId: 'a@b', size: 100 }));
  expect(weakIdentityOf(facts)).not.toBe(identityOf(facts));
  expect(weakIdentityOf(facts)).not.toBe(weakIdentityOf({ ...facts, size: 1 }));
});
