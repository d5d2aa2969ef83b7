import { tmpdir } from 'node:os';
import { describe, expect, test } from '@jest/globals';
import { simpleParser } from 'mailparser';
import type { SendInput } from '../../../src/contract/sending.ts';
import { compose } from '../../../src/mime/write/compose.ts';
import { forwardAsFile, forwardInline } from '../../../src/mime/write/forward.ts';
import { readForwarded } from '../../../src/mime/write/stored-draft.ts';
import { mailText } from '../../helpers/product/mail-text.ts';
import { expectCpuBelow } from '../../helpers/assert/cpu.ts';
import { file, outgoingMessage } from '../outgoing-messages.ts';
import { tnef } from '../tnef/tnef-bytes.ts';

/** What readers get of a forwarded email, as another parser reads it. */

const PNG = Buffer.from('PNG of the original');
const ORIGINAL = {
  from: '=?UTF-8?Q?J=C3=B6rg?= <joerg@example.test>',
  to: 'a@example.test, B <b@example.test>',
  cc: 'c@example.test',
  subject: 'Prices <new>',
  date: new Date('2026-02-02T09:00:00Z'),
  text: 'plain original',
};
const PICTURE = { name: 'logo.png', type: 'image/png', content: PNG, cid: 'logo' };
const BLOCK = [
  '---------- Forwarded message ----------',
  'From: Jörg <joerg@example.test>',
  'Date: Mon, 02 Feb 2026 09:00:00 +0000',
  'Subject: Prices <new>',
  'To: a@example.test, B <b@example.test>',
  'Cc: c@example.test',
].join('\n');

async function forwarded(input: SendInput, original: Parameters<typeof mailText>[0]) {
  const message = forwardInline(outgoingMessage(input), await readForwarded(mailText(original), tmpdir()));
  return simpleParser(await compose(message, { keepBcc: false }), { skipImageLinks: true });
}

describe('an email forwarded inline', () => {
  test('of plain text with a plain note has no HTML', async () => {
    const read = await forwarded({ plain_text: 'See below.' }, ORIGINAL);
    expect(read.subject).toBe('Fwd: Prices <new>');
    expect(read.text?.trimEnd()).toBe(`See below.\n\n${BLOCK}\n\nplain original`);
    expect(read.html).toBe(false);
  });

  test('without a note begins with the header block', async () => {
    const read = await forwarded({}, ORIGINAL);
    expect(read.text?.trimEnd()).toBe(`${BLOCK}\n\nplain original`);
  });

  test('with HTML on either side has both forms, one document, escaped', async () => {
    const html =
      '<!DOCTYPE html><html lang="en"><head><style>p{color:red}</style></head><body bgcolor=red><p>Old</p></body></html>';
    const both = await forwarded({ html: '<html><body><p>New</p></body></html>' }, { ...ORIGINAL, html });
    expect(both.html).toContain('<b>Subject:</b> Prices &lt;new&gt;<br>');
    expect(both.html).toMatch(
      /^<html><body><p>New<\/p>[^]*<style>p\{color:red\}<\/style><p>Old<\/p>[^]*<\/body><\/html>$/,
    );
    expect(String(both.html).match(/<body/g)).toHaveLength(1);
    expect(both.text).toContain(`New\n\n${BLOCK}`);

    const note = await forwarded({ plain_text: 'a < b' }, { ...ORIGINAL, html });
    expect(note.html).toMatch(/a &lt; b[^]*<p>Old<\/p>/);
    const quoted = await forwarded({ html: '<p>New</p>' }, ORIGINAL);
    expect(quoted.html).toMatch(/^<p>New<\/p>[^]*plain original/);
  });

  test('keeps files and inline images, and an own image with the same Content-ID is another', async () => {
    const own = { ...file('mine', { filename: 'mine.png', content_type: 'image/png', cid: 'logo' }) };
    const html = '<img src="cid:logo"><img src="cid:logo2">';
    const report = { name: 'Preise März.pdf', type: 'application/pdf', content: Buffer.from('PDF') };
    const original = { ...ORIGINAL, html, attachments: [PICTURE, { ...PICTURE, cid: 'logo2' }, report] };
    const read = await forwarded({ html: '<img src="cid:logo">', attachments: [own] }, original);
    const files = read.attachments.map(({ filename, cid, content, related }) => ({
      filename,
      cid,
      content: content.toString(),
      related: Boolean(related),
    }));
    expect(files).toHaveLength(4);
    expect(files).toEqual(
      expect.arrayContaining([
        { filename: 'mine.png', cid: 'logo', content: 'mine', related: true },
        { filename: 'logo.png', cid: 'forwarded-logo', content: String(PNG), related: true },
        { filename: 'logo.png', cid: 'logo2', content: String(PNG), related: true },
        { filename: 'Preise März.pdf', cid: undefined, content: 'PDF', related: false },
      ]),
    );
    expect(read.html).toMatch(/cid:logo"[^]*cid:forwarded-logo"[^]*cid:logo2"/);
  });

  test.each([
    [undefined, 'Fwd: Old', 'Fwd: Old'],
    [undefined, 'FW: Old', 'FW: Old'],
    [undefined, '', 'Fwd:'],
    ['Mine', 'Old', 'Mine'],
    [undefined, 'x'.repeat(2_000), `Fwd: ${'x'.repeat(993)}`],
  ])('with the subject %j of a mail %j is %j', (subject, old, expected) => {
    const original = { ...outgoingMessage({ plain_text: 'x' }), subject: old };
    expect(forwardInline(outgoingMessage(subject === undefined ? {} : { subject }), original).subject).toBe(expected);
  });

  test('of hostile HTML costs linear time', () => {
    const original = { ...outgoingMessage({}), html: '<meta '.repeat(1_000_000) + '</body'.repeat(100_000) };
    return expectCpuBelow(2_000, () => forwardInline(outgoingMessage({ html: 'x' }), original));
  });
});

test('an email forwarded as a file is unchanged to the byte', async () => {
  const source = Buffer.concat([mailText({ ...ORIGINAL, attachments: [PICTURE] }), Buffer.from('trailing\r\n')]);
  const message = forwardAsFile(outgoingMessage({ plain_text: 'See the file.' }), 'a/b: "c"', source);
  const [attached] = (await simpleParser(await compose(message, { keepBcc: false }))).attachments;
  expect(message.subject).toBe('Fwd: a/b: "c"');
  expect([attached?.contentType, attached?.filename]).toEqual(['message/rfc822', 'a b c.eml']);
  expect(attached?.content.equals(source)).toBe(true);
});

describe('an email that names Bcc recipients, forwarded as a file,', () => {
  test.each(['\r\n', '\n', '\r', '\r\r\n'])('does not name them, with the line ends %j', (end) => {
    const lines = (...all: string[]) => all.map((line) => `${line}${end}`).join('');
    const hidden = [
      'bcc: Hidden <hidden@x.test>,',
      '\tother@x.test',
      'Resent-Bcc:',
      ' third@x.test',
      'Bcc : last@x.test',
    ];
    const rest = ['', 'Bcc: of the text', 'end'];
    const source = lines('To: a@x.test', ...hidden, 'X-Bcc: kept', 'Subject: s', ...rest);
    const { attachments } = forwardAsFile(outgoingMessage({}), 's', Buffer.from(source));
    expect(String(attachments[0]?.content)).toBe(lines('To: a@x.test', 'X-Bcc: kept', 'Subject: s', ...rest));
  });

  test('also below empty lines, in a header without text', () => {
    const { attachments } = forwardAsFile(
      outgoingMessage({}),
      's',
      Buffer.from('\r\n \r\nBcc: h@x.test\r\nTo: a@x.test'),
    );
    expect(String(attachments[0]?.content)).toBe('\r\n \r\nTo: a@x.test');
  });
});

test('an email with a winmail.dat is forwarded inline with the files in it', async () => {
  const content = tnef([{ title: 'notes.txt', data: Buffer.from('some notes') }]);
  const attachments = [{ name: 'winmail.dat', type: 'application/ms-tnef', content }];
  const read = await forwarded({}, { ...ORIGINAL, attachments });
  expect(read.attachments.map(({ filename, content: bytes }) => [filename, String(bytes)])).toEqual([
    ['notes.txt', 'some notes'],
  ]);
});
