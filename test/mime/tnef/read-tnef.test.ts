import { describe, expect, it } from '@jest/globals';
import { readTnef } from '../../../src/mime/tnef/index.ts';
import { expectCpuBelow } from '../../helpers/assert/cpu.ts';
import { accessTo, attribute, properties, type Property, text8, text16, tnef, u32 } from './tnef-bytes.ts';

describe('a TNEF', () => {
  it('returns the ranges of its files, and its text up to the requested length', () => {
    const more = [attribute(1, 0x0002800c, Buffer.from('caf\xe9 at nine\0', 'latin1'))];
    const content = tnef([{ title: 'a.txt', data: Buffer.from('some notes') }], { more });
    const found = readTnef(accessTo(content));
    expect(found).toMatchObject({ files: [{ name: 'a.txt', size: 10 }], hasMore: false, text: 'café at nine' });
    const { at = 0, size = 0 } = found?.files[0] ?? {};
    expect(content.subarray(at, at + size).toString()).toBe('some notes');
    expect(readTnef(accessTo(content), { maxText: 12 })).toMatchObject({ hasText: true, text: null });
    expect(readTnef(accessTo(content), { maxFiles: 0 })).toBeNull();
  });

  it('is read by its content, not by the sizes that it claims', () => {
    const reads: number[] = [];
    const measuredRead = (content: Buffer) => {
      const access = {
        size: content.length,
        read: (at: number, length: number) => (reads.push(length), content.subarray(at, at + length)),
      };
      return readTnef(access);
    };
    const found = measuredRead(
      tnef(Array.from({ length: 400 }, (_, n) => ({ title: `${n}`, data: Buffer.alloc(10_000) }))),
    );
    expect(found?.files).toHaveLength(400);
    // heads and names, never a content
    expect(reads.length).toBeLessThan(400 * 6);
    expect(reads.reduce((sum, length) => sum + length, 0)).toBeLessThan(400 * 100);
    expect(measuredRead(tnef(Array.from({ length: 2_000 }, () => ({ data: Buffer.alloc(1) }))))).toBeNull();
  });

  it('uses no detector: an unknown code page costs the same as any other', () => {
    const name = '\xc3\x28\xf0\xe9\xe0\xe8\xfc'.repeat(250);
    const title = attribute(2, 0x00018010, Buffer.from(name, 'latin1'));
    const files = Array.from({ length: 400 }, () => ({ title: name, data: Buffer.from('a') }));
    const content = Buffer.concat([tnef(files, { codepage: 64_999 }), ...Array.from({ length: 10_000 }, () => title)]);
    expectCpuBelow(600, () => readTnef(accessTo(content)));
    expect(readTnef(accessTo(content))?.files[0]?.name).toMatch(/^Ã\(ðéàèü/);
  });

  it('is read in a limited number of pieces, and not after the time is up', () => {
    // 1,900,000 properties: each is a read
    const many = properties(...Array.from({ length: 1_900 }, (): Property => [0x03, 1, u32(1)]));
    const content = Buffer.concat([
      tnef([{ title: 'a', data: Buffer.from('a') }]),
      ...Array.from({ length: 1_000 }, () => attribute(2, 0x00069005, many)),
    ]);
    let reads = 0;
    const counted = {
      ...accessTo(content),
      read: (at: number, length: number) => ((reads += 1), content.subarray(at, at + length)),
    };
    expect(readTnef(counted)).toBeNull();
    expect(reads).toBeLessThanOrEqual(200_000);
    reads = 0;
    expect(readTnef(counted, { maxFiles: 500, isTimeUp: () => true })).toBeNull();
    expect(reads).toBeLessThanOrEqual(256);
  });

  it('never fails, even if broken', () => {
    const whole = tnef([
      { title: 'a.txt', data: Buffer.from('aa'), properties: [text16(0x3707, 'long'), text8(0x9000, 'x')] },
    ]);
    for (let at = 0; at < whole.length; at++) {
      for (const value of [0, 0xff, (whole[at] ?? 0) ^ 0x10]) {
        const broken = Buffer.from(whole);
        broken[at] = value;
        const found = readTnef({ size: broken.length, read: (from, length) => broken.subarray(from, from + length) });
        for (const file of found?.files ?? []) expect(file.at + file.size).toBeLessThanOrEqual(broken.length);
      }
      readTnef({ size: at, read: (from, length) => whole.subarray(0, at).subarray(from, from + length) });
    }
  });
});
