import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { createMailParser, type MailParser, type ParsedMail } from '../../src/mime/parser.ts';
import { readParts } from '../../src/mime/read/read-parts.ts';
import { readTnef } from '../../src/mime/read/tnef.ts';
import { expectCpuBelow } from '../helpers/assert/cpu.ts';
import { mailText } from '../helpers/product/mail-text.ts';

/** The files in a winmail.dat (MS-OXTNEF). */

let dir: string;
let parser: MailParser;
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'tnef-'));
  parser = createMailParser({ tempDir: dir });
});
afterAll(async () => {
  await parser.close();
  await rm(dir, { recursive: true, force: true });
});

const u32 = (value: number) => {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value >>> 0);
  return bytes;
};
const pad = (bytes: Buffer) => Buffer.concat([bytes, Buffer.alloc((4 - (bytes.length % 4)) % 4)]);

function attribute(level: 1 | 2, id: number, data: Buffer): Buffer {
  let sum = 0;
  for (const byte of data) sum = (sum + byte) & 0xffff;
  return Buffer.concat([Buffer.from([level]), u32(id), u32(data.length), data, u32(sum).subarray(0, 2)]);
}

type Property = [type: number, id: number, value: Buffer];
const text8 = (id: number, value: string): Property => [0x1e, id, Buffer.from(`${value}\0`, 'latin1')];
const text16 = (id: number, value: string): Property => [0x1f, id, Buffer.from(`${value}\0`, 'utf16le')];
const VARIABLE = new Set([0x1e, 0x1f, 0x0d, 0x102]);

function properties(...list: Property[]): Buffer {
  const written = list.map(([type, id, value]) => {
    const named = id >= 0x8000 ? [Buffer.alloc(16, 7), u32(1), u32(6), pad(Buffer.from('abc', 'utf16le'))] : [];
    const head = Buffer.concat([u32(type | (id << 16)), ...named]);
    return VARIABLE.has(type) ? [head, u32(1), u32(value.length), pad(value)] : [head, value];
  });
  return Buffer.concat([u32(list.length), ...written.flat()]);
}

interface File {
  title?: string;
  data?: Buffer;
  properties?: Property[];
}

/** A TNEF of these files; `more` are attributes before them. */
function tnef(files: File[], { codepage = 1252, more = [] }: { codepage?: number; more?: Buffer[] } = {}): Buffer {
  const attributes = files.flatMap(({ title, data, properties: list }) => [
    attribute(2, 0x00069002, Buffer.alloc(14)),
    ...(title === undefined ? [] : [attribute(2, 0x00018010, Buffer.from(`${title}\0`, 'latin1'))]),
    ...(data === undefined ? [] : [attribute(2, 0x0006800f, data)]),
    ...(list === undefined ? [] : [attribute(2, 0x00069005, properties(...list))]),
  ]);
  const message = [
    attribute(1, 0x00089006, u32(0x10000)),
    attribute(1, 0x00069007, Buffer.concat([u32(codepage), u32(0)])),
    ...more,
  ];
  return Buffer.concat([u32(0x223e9f78), Buffer.from([1, 0]), ...message, ...attributes]);
}

const mailWith = (content: Buffer, type = 'application/ms-tnef', text = 'see the files') =>
  mailText({ text, attachments: [{ name: 'winmail.dat', type, content }] });
const read = (content: Buffer, type?: string): Promise<ParsedMail> => parser.parse(mailWith(content, type));
const accessTo = (content: Buffer) => ({
  size: content.length,
  read: (at: number, length: number) => content.subarray(at, at + length),
});

async function filesOf({ attachments, tempDir }: ParsedMail): Promise<unknown[]> {
  const found = [];
  for (const { name, mime, size, content } of attachments) {
    const bytes = Buffer.isBuffer(content) ? content : await readFile(content.path);
    expect(bytes.length).toBe(size);
    found.push([name, mime, bytes.length > 100 ? bytes.length : bytes.toString()]);
  }
  if (tempDir) await rm(tempDir, { recursive: true });
  return found;
}

describe('a winmail.dat', () => {
  it('is opened: its files are the attachments, by their long names', async () => {
    const content = tnef([
      { title: 'REPORT~1.PDF', data: Buffer.from('%PDF'), properties: [text16(0x3707, 'Bericht für März.pdf')] },
      { title: 'notes.txt', data: Buffer.from('some notes') },
      {
        title: 'x.bin',
        data: Buffer.from('png'),
        properties: [
          [0x03, 0x3705, u32(1)],
          [0x0b, 0x8001, u32(1)],
          [0x40, 0x3007, Buffer.alloc(8)],
          [0x1003, 0x1234, Buffer.concat([u32(2), u32(1), u32(2)])],
          text8(0x3707, 'caf\xe9.png'),
          text8(0x370e, 'image/png'),
        ],
      },
    ]);
    for (const type of ['application/ms-tnef', 'application/vnd.ms-tnef', 'application/octet-stream']) {
      const mail = await read(content, type);
      expect(mail.bodyPlain.trim()).toBe('see the files');
      expect(await filesOf(mail)).toEqual([
        ['Bericht für März.pdf', 'application/pdf', '%PDF'],
        ['notes.txt', 'text/plain', 'some notes'],
        ['café.png', 'image/png', 'png'],
      ]);
    }
  });

  it('may be large: its files are as large', async () => {
    const mail = await read(
      tnef([
        { title: 'a.bin', data: Buffer.alloc(900_001, 'a') },
        { title: 'b.bin', data: Buffer.alloc(300_000, 'b') },
      ]),
    );
    expect(mail.isPartial).toBe(false);
    expect(await filesOf(mail)).toEqual([
      ['a.bin', 'application/octet-stream', 900_001],
      ['b.bin', 'application/octet-stream', 300_000],
    ]);
  });

  it('stays beside the files where it holds an embedded message, whose files count too', async () => {
    const inner = Buffer.concat([Buffer.alloc(16, 1), tnef([{ title: 'inner.txt', data: Buffer.from('inner') }])]);
    const content = tnef([{ title: 'outer.txt', data: Buffer.from('outer') }, { properties: [[0x0d, 0x3701, inner]] }]);
    expect(await filesOf(await read(content))).toEqual([
      ['outer.txt', 'text/plain', 'outer'],
      ['inner.txt', 'text/plain', 'inner'],
      ['winmail.dat', 'application/ms-tnef', content.length],
    ]);
  });

  it.each([
    ['a property of no known type', properties([0x77, 1, u32(1)])],
    ['a property of 4 GB', Buffer.concat([u32(1), u32(0x3707001e), u32(1), u32(0xffffffff)])],
    ['4,000,000,000 properties', u32(0xffffffff)],
  ])('stays beside its files, by their short names, where their properties are broken: %s', async (_, broken) => {
    const content = Buffer.concat([
      tnef([{ title: 'a.txt', data: Buffer.from('a') }]),
      attribute(2, 0x00069005, broken),
    ]);
    expect(await filesOf(await read(content))).toMatchObject([
      ['a.txt', 'text/plain', 'a'],
      ['winmail.dat', 'application/ms-tnef', expect.anything()],
    ]);
  });

  it('may lack its last checksum', async () => {
    const content = tnef([{ title: 'a.txt', data: Buffer.from('a') }]).subarray(0, -2);
    expect(await filesOf(await read(content))).toEqual([['a.txt', 'text/plain', 'a']]);
  });

  it.each([
    ['none at all', Buffer.from('this is no TNEF')],
    ['one without files', tnef([])],
    ['one that ends too early', tnef([{ title: 'a.txt', data: Buffer.from('aaaaaaaa') }]).subarray(0, -9)],
    ['one with 4,000,000,000 properties', tnef([{ title: 'a', data: Buffer.from('a') }]).fill(0xff, 60)],
  ])('stays the attachment that it is: %s', async (_, content) => {
    const mail = await read(content);
    expect(mail.isPartial).toBe(false);
    expect(mail.attachments).toMatchObject([{ name: 'winmail.dat', size: content.length }]);
  });

  it('is read by what it holds, not by what it claims', () => {
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

  it.each([
    ['a file that is elsewhere', tnef([{ title: 'a.txt', data: Buffer.from('a') }, { title: 'linked.doc' }])],
    [
      'a file before any is announced',
      tnef([{ title: 'a.txt', data: Buffer.from('a') }], { more: [attribute(2, 0x0006800f, Buffer.from('lost'))] }),
    ],
    [
      'two contents of one file',
      Buffer.concat([
        tnef([{ title: 'a.txt', data: Buffer.from('a') }]),
        attribute(2, 0x0006800f, Buffer.from('second')),
      ]),
    ],
  ])('stays beside its files where it holds %s', async (_, content) => {
    expect(await filesOf(await read(content))).toEqual([
      ['a.txt', 'text/plain', 'a'],
      ['winmail.dat', 'application/ms-tnef', expect.anything()],
    ]);
  });

  const BODY = attribute(1, 0x0002800c, Buffer.from('caf\xe9 at nine\0', 'latin1'));
  const RTF = attribute(1, 0x00069003, properties([0x102, 0x1009, Buffer.from('rtf')]));
  it.each([
    ['attBody', BODY, 'café at nine'],
    ['PR_BODY', attribute(1, 0x00069003, properties(text16(0x1000, 'naïve'))), 'naïve'],
    ['PR_RTF_COMPRESSED', RTF, ''],
    ['properties that cannot be read', attribute(1, 0x00069003, u32(0xffffffff)), ''],
  ])('keeps the text of a mail that has none of its own: %s', async (_, more, text) => {
    const content = tnef([{ title: 'a.txt', data: Buffer.from('a') }], { more: [more] });
    const mail = await parser.parse(mailWith(content, 'application/ms-tnef', ' '));
    expect(mail.bodyPlain.trim()).toBe(text);
    expect((await filesOf(mail)).map((file) => (file as string[])[0])).toEqual(['a.txt', 'winmail.dat']);
    const withText = await read(content);
    expect(withText.bodyPlain.trim()).toBe('see the files');
    expect((await filesOf(withText)).map((file) => (file as string[])[0])).toEqual(['a.txt']);
  });

  it('asks no detector what its names are in: one of a code page that is none costs what any other does', () => {
    const name = '\xc3\x28\xf0\xe9\xe0\xe8\xfc'.repeat(250);
    const title = attribute(2, 0x00018010, Buffer.from(name, 'latin1'));
    const files = Array.from({ length: 400 }, () => ({ title: name, data: Buffer.from('a') }));
    const content = Buffer.concat([tnef(files, { codepage: 64_999 }), ...Array.from({ length: 10_000 }, () => title)]);
    expectCpuBelow(600, () => readTnef(accessTo(content)));
    expect(readTnef(accessTo(content))?.files[0]?.name).toMatch(/^Ã\(ðéàèü/);
  });

  it('is read in so many pieces at most, and not when the time is up', () => {
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

  it('shares the room of its mail: 1,000 parts with the files of all of them', async () => {
    const content = tnef(Array.from({ length: 300 }, (_, n) => ({ title: `${n}`, data: Buffer.from('a') })));
    const each = { name: 'winmail.dat', type: 'application/ms-tnef', content };
    const mail = await parser.parse(mailText({ text: 'many', attachments: Array.from({ length: 40 }, () => each) }));
    expect(mail.attachments.filter(({ name }) => name === 'winmail.dat')).toHaveLength(37);
    expect(mail.attachments.filter(({ size }) => size === 1)).toHaveLength(900);
  });

  it.each([
    ['in memory', 10],
    ['in files', 300_000],
  ])('leaves a mark where the time ended while it was unpacked: %s', async (_, size) => {
    const content = tnef(Array.from({ length: 20 }, (_, n) => ({ title: `${n}`, data: Buffer.alloc(size, 'a') })));
    const source = mailWith(content);
    const count = async (limit: number) => {
      let asked = 0;
      const mail = await readParts(source, {
        spillDir: join(dir, `cut-${size}-${limit}`),
        isTimeUp: () => ++asked > limit,
      });
      return { asked, mail };
    };
    const whole = await count(Number.POSITIVE_INFINITY);
    expect(whole.mail).toMatchObject({ isPartial: false });
    expect(whole.mail.parts).toHaveLength(21);
    const cut = await count(whole.asked - 5);
    expect(cut.mail).toMatchObject({ isPartial: true });
    expect(cut.mail.parts.map(({ filename }) => filename)).toEqual([null, 'winmail.dat']);
  });

  it('never fails, however it is broken', () => {
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
