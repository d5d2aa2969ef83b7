import { describe, expect, it } from '@jest/globals';
import { StructureReader } from '../../src/mime/read/structure.ts';

/** How much work hostile headers and delimiters are: bytes that were made text, never the clock. */

const HEAD = 'From: a@x.test\r\nSubject: s\r\n';
const MULTIPART = `${HEAD}Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\n`;

/** How many times each byte of a message was made text, on the average; and the fields of its header. */
function workOf(text: string): { share: number; fields: number } {
  let decoded = 0;
  const counted = (bytes: Buffer): Buffer =>
    Object.assign(bytes, {
      toString(encoding: BufferEncoding, start = 0, end = bytes.length) {
        decoded += end - start;
        return Buffer.prototype.toString.call(bytes, encoding, start, end);
      },
      subarray: (start?: number, end?: number) =>
        counted(Buffer.from(Buffer.prototype.subarray.call(bytes, start, end))),
    });
  let fields = 0;
  const reader = new StructureReader({
    entity: (entity) => {
      fields += entity.fields.length;
      return true;
    },
    ...{ body: () => {}, end: () => {}, outside: () => {} },
  });
  reader.write(counted(Buffer.from(text, 'latin1')));
  reader.end();
  return { share: decoded / text.length, fields };
}

describe('the work of reading a structure is in proportion to the message', () => {
  it.each([
    ['stray lines between fields', `${HEAD}${'a stray line\r\nX-A: b\r\n'.repeat(20_000)}\r\nx`, 20_002],
    ['many stray lines before each field', `${HEAD}${`${'s\r\n'.repeat(48)}X-A: b\r\n`.repeat(2_000)}\r\nx`, 2_002],
    ['lines that begin as delimiters do', MULTIPART + '--c\r\n'.repeat(50_000), 3],
    ['lines that begin as this delimiter does', MULTIPART + '--bc\r\n'.repeat(50_000), 3],
  ])('%s', (_, text, fields) => {
    const work = workOf(text);
    expect(work.fields).toBe(fields);
    expect(work.share).toBeLessThan(2.5);
  });

  it('a known field after 50 stray lines comes too late', () => {
    expect(workOf(`${HEAD}${'s\r\n'.repeat(51)}X-A: b\r\n\r\nx`).fields).toBe(2);
  });
});
