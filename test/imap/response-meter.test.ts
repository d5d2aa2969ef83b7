import { describe, expect, test } from '@jest/globals';
import { ResponseMeter } from '../../src/imap/response-meter.ts';

/** Takes all bytes, in chunks of one size, in as few turns as possible; returns the largest piece. */
function takeAll(meter: ResponseMeter, text: string, chunkSize = text.length): number {
  const bytes = Buffer.from(text, 'latin1');
  let largest = 0;
  for (let start = 0; start < bytes.length; start += chunkSize) {
    let chunk = bytes.subarray(start, start + chunkSize);
    while (chunk.length > 0) {
      const length = meter.take(chunk);
      if (length === 0) meter.beginTurn();
      largest = Math.max(largest, length);
      chunk = chunk.subarray(length);
    }
  }
  return largest;
}

const meterOf = (responses: number): ResponseMeter => {
  const meter = new ResponseMeter();
  meter.allow(responses);
  return meter;
};

/** 1,000 lines in a literal are one response. */
const LITERAL = `* 1 FETCH (BODY[] {2000}\r\n${'\r\n'.repeat(1_000)})\r\n`;

describe('a meter', () => {
  test.each([1, 2, 3, 7, 64, 1_000_000])('counts the lines outside of literals, however they are cut: %i', (size) => {
    const exact = meterOf(2 * 3 + 1);
    takeAll(exact, LITERAL.repeat(3), size);
    expect(exact.exceeded).toBe(false);
    const less = meterOf(2 * 3 - 1);
    takeAll(less, LITERAL.repeat(3), size);
    expect(less.exceeded).toBe(true);
  });

  test.each(['{5', '5}', '{}', '{a}', '{5} '])('takes a line that ends with %j for no literal', (end) => {
    const meter = meterOf(100);
    takeAll(meter, `* OK ${end}\r\n${'\r\n'.repeat(101)}`);
    expect(meter.exceeded).toBe(true);
  });

  test('counts the bytes of long lines and large literals', () => {
    const line = meterOf(100);
    takeAll(line, 'a'.repeat(100_000), 1_000);
    expect(line.exceeded).toBe(true);
    const literal = meterOf(100);
    takeAll(literal, '* 1 FETCH (BODY[] {67108864}\r\n');
    expect(literal.exceeded).toBe(true);
  });

  test('allows a response no more than 200 literals', () => {
    const several = meterOf(10_000);
    takeAll(several, `* X (${'{1}\r\na '.repeat(150)})\r\n`.repeat(5));
    expect(several.exceeded).toBe(false);
    takeAll(several, `* X (${'{1}\r\na '.repeat(201)})\r\n`);
    expect(several.exceeded).toBe(true);
  });

  test('gives the parser few lines at a time, and the bytes of a literal all at once', () => {
    expect(takeAll(meterOf(Infinity), '* OK\r\n'.repeat(10_000))).toBe(256 * 6);
    expect(takeAll(meterOf(Infinity), 'a'.repeat(100_000))).toBe(16 * 1024);
    expect(takeAll(meterOf(Infinity), `* 1 FETCH (BODY[] {60000}\r\n${'a\r\n'.repeat(20_000)})\r\n`)).toBeGreaterThan(
      60_000,
    );
  });
});
