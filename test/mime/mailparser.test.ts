import { describe, expect, test } from '@jest/globals';
import { type AddressObject, type AttachmentStream, type Headers, MailParser, type MessageText } from 'mailparser';
import type { ParsedMail } from '../../src/mime/read/parsed-mail.ts';
import { fixture, message, read } from './read-fixture.ts';

/*
 * A mail as mailparser alone reads it, and as this product reads it. Each row is a reason why src/mime/read reads
 * structure and texts, and mailparser the addresses alone. A row that fails in its first half after an update of mailparser
 * is a reason less.
 */

interface Alone {
  from: string;
  to: string[];
  text: string;
  html: string;
  files: string[];
}

/** A mail as mailparser reads it, without this product's passes. */
function readAlone(source: Buffer): Promise<Alone> {
  const result: Alone = { from: '', to: [], text: '', html: '', files: [] };
  const parser = new MailParser({ skipHtmlToText: true, skipTextToHtml: true, skipTextLinks: true });
  const namesOf = (headers: Headers, key: string) =>
    ((headers.get(key) as AddressObject | undefined)?.value ?? []).map(({ name, address }) => name || (address ?? ''));
  return new Promise((resolve, reject) => {
    parser.on('headers', (headers: Headers) => {
      result.from = namesOf(headers, 'from').join();
      result.to = namesOf(headers, 'to');
    });
    parser.on('data', (data: AttachmentStream | MessageText) => {
      if (data.type === 'attachment') {
        result.files.push(data.contentType);
        data.release?.();
      } else {
        result.text = data.text ?? '';
        result.html = typeof data.html === 'string' ? data.html : '';
      }
    });
    parser.on('error', reject).on('end', () => resolve(result));
    parser.end(source);
  });
}

const binary = (lines: string[], body = ''): Buffer => Buffer.from(message(lines, body).toString('utf8'), 'latin1');
const mixed = (...parts: string[]): Buffer =>
  binary(['Content-Type: multipart/mixed; boundary=b'], `--b\r\n${parts.join('\r\n--b\r\n')}\r\n--b--\r\n`);
const typed = (type: string, body: string): Buffer =>
  binary([`Content-Type: ${type}`, 'Content-Transfer-Encoding: 8bit'], body);
const types = (mail: ParsedMail): string[] => mail.attachments.map(({ mime }) => mime);

describe('mailparser alone', () => {
  test.each<[string, Buffer, (mail: Alone) => unknown, unknown, (mail: ParsedMail) => unknown, unknown]>([
    [
      'takes the first From, where the first one that has an address is the author',
      binary(['From: Ann', 'From: Eve <eve@x.y>']),
      ({ from }) => from,
      'Ann',
      ({ from }) => from.identifier,
      'eve@x.y',
    ],
    [
      'reads names in raw 8 bits as UTF-8, where the mail says that it is in another charset',
      binary(['From: \xf0\xd2\xc9 <p@x.y>', 'Content-Type: text/plain; charset=koi8-r']),
      ({ from }) => from,
      '\ufffd\ufffd\ufffd',
      ({ from }) => from.display_name,
      'При',
    ],
    [
      'knows no charset of the first part while it reads the header',
      binary(
        ['From: \xf0\xd2\xc9 <p@x.y>', 'Content-Type: multipart/mixed; boundary=b'],
        '--b\r\nContent-Type: text/plain; charset=koi8-r\r\n\r\nx\r\n--b--\r\n',
      ),
      ({ from }) => from,
      '\ufffd\ufffd\ufffd',
      ({ from }) => from.display_name,
      'При',
    ],
    [
      'reads text without a charset as UTF-8, and loses what is not',
      typed('text/plain', 'caf\xe9'),
      ({ text }) => text,
      'caf\ufffd',
      ({ bodyPlain }) => bodyPlain,
      'café',
    ],
    [
      'loses what is called UTF-8 and is not',
      typed('text/plain; charset=utf-8', 'caf\xe9'),
      ({ text }) => text,
      'caf\ufffd',
      ({ bodyPlain }) => bodyPlain,
      'café',
    ],
    [
      'does not look for the charset that HTML names itself',
      typed('text/html', '<meta charset="koi8-r">\xf0\xd2'),
      ({ html }) => html,
      '<meta charset="koi8-r">\ufffd\ufffd',
      ({ body }) => body,
      '<meta charset="koi8-r">Пр',
    ],
    [
      'makes a file of text with an invalid Content-Type (RFC 2045 5.2: it is text)',
      typed('text', 'still text'),
      ({ text, files }) => [text, files],
      ['', ['text']],
      ({ bodyPlain, attachments }) => [bodyPlain, attachments],
      ['still text', []],
    ],
    [
      'runs a text file that is named, next to the body, into the body',
      mixed('\r\nbody', 'Content-Type: text/plain; name=notes.txt\r\nContent-Disposition: inline\r\n\r\nnotes'),
      ({ text, files }) => [text, files],
      ['body\nnotes', []],
      ({ bodyPlain, attachments }) => [bodyPlain, attachments.map(({ name }) => name)],
      ['body', ['notes.txt']],
    ],
    [
      'reads the parts of a digest as text (RFC 2046 5.1.5: they are messages)',
      binary(
        ['Content-Type: multipart/digest; boundary=b'],
        '--b\r\n\r\nSubject: inner\r\n\r\ninner text\r\n--b--\r\n',
      ),
      ({ text, files }) => [text, files],
      ['Subject: inner\n\ninner text', []],
      (mail) => [mail.bodyPlain, types(mail)],
      ['', ['message/rfc822']],
    ],
    [
      'finds nothing where the boundary is another one than declared',
      fixture('no-boundary-found'),
      ({ text }) => text,
      '',
      ({ bodyPlain }) => bodyPlain.trim(),
      'the text that would be lost',
    ],
  ])('%s', async (_, source, alone, wrong, ours, right) => {
    expect(alone(await readAlone(source))).toEqual(wrong);
    expect(ours(await read(source))).toEqual(right);
  });
});

describe('the parts of a mail', () => {
  test('have no text where they end in their header', async () => {
    const mail = await read(mixed('\r\nseen', 'Content-Type: text/plain'));
    expect(mail.bodyPlain).toBe('seen');
  });

  test('a charset of the mail cannot make one field of a header into two', async () => {
    const mail = await read(
      binary([
        'From: \xff+AA0ACg-Bcc: eve@x.y',
        'To: +AA0ACg-Cc: eve@x.y \xff',
        'Content-Type: text/plain; charset=utf-7',
      ]),
    );
    expect([mail.cc, mail.bcc]).toEqual([[], []]);
  });

  test('have no more than 8 MB of headers', async () => {
    const parts = (count: number) =>
      mixed(...Array.from({ length: count }, () => `X: ${'y'.repeat(100_000)}\r\n\r\nx`));
    expect((await read(parts(80))).isPartial).toBe(false);
    expect((await read(parts(90))).isPartial).toBe(true);
  });
});
