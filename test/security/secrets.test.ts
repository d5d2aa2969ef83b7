import { randomBytes } from 'node:crypto';
import { describe, expect, it } from '@jest/globals';
import { createSecrets, SealError } from '../../src/security/secrets.ts';

const where = { table: 'accounts', column: 'credentials', id: 'acc_1' };
const current = randomBytes(32);
const secrets = createSecrets({ current });

function reasonOf(open: () => unknown): string {
  try {
    open();
  } catch (error) {
    if (error instanceof SealError) return error.reason;
    throw error;
  }
  return 'opened';
}

describe('secrets', () => {
  it.each(['', 'pässwörd 🔑', 'x'.repeat(100_000)])('opens what it sealed (%#)', (text) => {
    expect(secrets.open(where, secrets.seal(where, text))).toBe(text);
  });

  it('never shows the text, and never returns the same bytes twice', () => {
    const sealed = [secrets.seal(where, 'canary-password'), secrets.seal(where, 'canary-password')] as const;
    expect(sealed[0].includes('canary-password')).toBe(false);
    expect(sealed[0].subarray(9).equals(sealed[1].subarray(9))).toBe(false);
  });

  it('refuses a value with any one bit changed', () => {
    const sealed = secrets.seal(where, 'text');
    for (let at = 0; at < sealed.length; at++) {
      const changed = Buffer.from(sealed);
      changed[at] = (changed[at] ?? 0) ^ 1;
      expect(reasonOf(() => secrets.open(where, changed))).toBe(at >= 1 && at <= 8 ? 'unknown_key' : 'damaged');
    }
  });

  it('refuses a value that was cut short', () => {
    const sealed = secrets.seal(where, 'text');
    for (let length = 0; length < sealed.length; length++) {
      expect(reasonOf(() => secrets.open(where, sealed.subarray(0, length)))).toBe('damaged');
    }
  });

  it.each([
    { ...where, id: 'acc_2' },
    { ...where, column: 'secret' },
    { ...where, table: 'webhook_endpoints' },
    { table: 'accountsc', column: 'redentials', id: 'acc_1' },
  ])('refuses a value that was moved to another place (%#)', (elsewhere) => {
    expect(reasonOf(() => secrets.open(elsewhere, secrets.seal(where, 'text')))).toBe('damaged');
  });

  it('opens old values with the previous key and seals new ones with the current', () => {
    const next = randomBytes(32);
    const rotating = createSecrets({ current: next, previous: current });
    expect(rotating.open(where, secrets.seal(where, 'old'))).toBe('old');
    const renewed = rotating.seal(where, 'new');
    expect(createSecrets({ current: next }).open(where, renewed)).toBe('new');
    expect(reasonOf(() => secrets.open(where, renewed))).toBe('unknown_key');
  });

  it('accepts keys of 32 bytes only', () => {
    expect(() => createSecrets({ current: randomBytes(16) })).toThrow(RangeError);
  });
});
