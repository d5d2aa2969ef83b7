import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { createMailParser, type MailParser, type ParsedMail } from '../../../src/mime/parser.ts';
import { readParts } from '../../../src/mime/read/read-parts.ts';
import { mailText } from '../../helpers/product/mail-text.ts';
import { attribute, properties, text8, text16, tnef, u32 } from './tnef-bytes.ts';

/** The files in a winmail.dat as the attachments of its mail. */

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

const mailWith = (content: Buffer, type = 'application/ms-tnef', text = 'see the files') =>
  mailText({ text, attachments: [{ name: 'winmail.dat', type, content }] });
const read = (content: Buffer, type?: string): Promise<ParsedMail> => parser.parse(mailWith(content, type));

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
  it('is unpacked: its files are the attachments, with their long names', async () => {
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

  it('may be large, with large files', async () => {
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
  ])('provides the text of a mail without one: %s', async (_, more, text) => {
    const content = tnef([{ title: 'a.txt', data: Buffer.from('a') }], { more: [more] });
    const mail = await parser.parse(mailWith(content, 'application/ms-tnef', ' '));
    expect(mail.bodyPlain.trim()).toBe(text);
    expect((await filesOf(mail)).map((file) => (file as string[])[0])).toEqual(['a.txt', 'winmail.dat']);
    const withText = await read(content);
    expect(withText.bodyPlain.trim()).toBe('see the files');
    expect((await filesOf(withText)).map((file) => (file as string[])[0])).toEqual(['a.txt']);
  });

  it('counts toward the limit of its mail: 1,000 parts including all unpacked files', async () => {
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
});
