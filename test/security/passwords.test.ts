import { describe, expect, it } from '@jest/globals';
import { isPassword, sealPassword } from '../../src/security/passwords.ts';

const PASSWORD = 'correct horse battery';

describe('a password', () => {
  it('is stored with its parameters and its own salt', async () => {
    const [one, two] = [await sealPassword(PASSWORD), await sealPassword(PASSWORD)];
    expect(one).toMatch(/^scrypt\$15\$8\$3\$[\w-]{22}\$[\w-]{43}$/);
    expect(one).not.toBe(two);
    expect([await isPassword(PASSWORD, one), await isPassword(`${PASSWORD} `, one)]).toEqual([true, false]);
    expect([await isPassword('', null), await isPassword('', ''), await isPassword('x', 'scrypt$')]).toEqual(
      Array<boolean>(3).fill(false),
    );
  });

  it('is compared with the parameters that it was stored with, in either form of its characters', async () => {
    // N = 2^4, of another version
    const stored = 'scrypt$4$8$1$c2FsdA$rTJOt96pkUlZekgofPr1Kq79nFchZpcIVV6Hvif9tog';
    expect(await isPassword('café au lait noir', stored)).toBe(true);
    expect(await isPassword('cafe\u0301 au lait noir', stored)).toBe(true);
    expect(await isPassword('cafe au lait noir', stored)).toBe(false);
  });
});
