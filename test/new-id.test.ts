import { expect, it } from '@jest/globals';
import { isId } from '../src/contract/ids.ts';
import { madeAt, newId } from '../src/new-id.ts';

const DIGITS = '0123456789abcdefghjkmnpqrstvwxyz';
const randomPart = (id: string) =>
  [...id.slice(-16)].reduce((sum, digit) => sum * 32n + BigInt(DIGITS.indexOf(digit)), 0n);

it('makes increasing ids', () => {
  const ids = Array.from({ length: 1_000 }, () => newId('event'));
  expect([...ids].sort()).toEqual(ids);
  expect(Math.abs(madeAt(newId('event')).getTime() - Date.now())).toBeLessThan(60_000);
});

it('makes tracking ids that cannot be guessed from another one', () => {
  const ids = Array.from({ length: 1_000 }, () => newId('tracking'));
  expect(ids.every((id) => isId('tracking', id))).toBe(true);
  expect(new Set(ids.map((id) => id.slice(-16, -8))).size).toBe(1_000);
  const near = ids.filter((id, at) => {
    const distance = randomPart(id) - randomPart(ids[at - 1] ?? id);
    return at > 0 && distance < 2n ** 40n && distance > -(2n ** 40n);
  });
  expect(near).toEqual([]);
  expect(Math.abs(madeAt(ids[0] ?? '').getTime() - Date.now())).toBeLessThan(60_000);
});
