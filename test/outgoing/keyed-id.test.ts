import { createHash } from 'node:crypto';
import { expect, it } from '@jest/globals';
import { isId } from '../../src/contract/ids.ts';
import { keyedEmailId, messagePartOf, recentKeyedParts } from '../../src/outgoing/keyed-id.ts';

const digester = { digest: (text: string) => createHash('sha256').update(text).digest() };
const call = { apiKeyId: 'pk_1', key: 'order-4711', fingerprint: Buffer.from('body') };
const at = (time: string) => new Date(`2026-03-${time}Z`);
const part = (time: string, more: Partial<typeof call> = {}) =>
  messagePartOf(keyedEmailId(digester, { ...call, ...more }, at(time)));

it('the id of a call with a key is an id, and ends the same within a day', () => {
  const id = keyedEmailId(digester, call, at('04T05:06:07'));
  expect(isId('email', id)).toBe(true);
  expect(part('04T23:59:59')).toBe(messagePartOf(id));
});

it('another call, or the same a day later, has another end', () => {
  const parts = [
    part('04T05:06:07'),
    part('05T05:06:08'),
    part('04T05:06:07', { apiKeyId: 'pk_2' }),
    part('04T05:06:07', { key: 'order-4712' }),
    part('04T05:06:07', { fingerprint: Buffer.from('other body') }),
  ];
  expect(new Set(parts).size).toBe(parts.length);
});

it('a call of the last 24 hours is recognised, on the next day too', () => {
  expect(recentKeyedParts(digester, call, at('05T05:06:00'))).toContain(part('04T05:06:07'));
  expect(recentKeyedParts(digester, call, at('05T05:06:00'))).toContain(part('05T00:00:01'));
});
