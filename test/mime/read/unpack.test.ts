import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { signedContent } from '../../../src/mime/read/unpack/signed-content.ts';
import { readForwarded } from '../../../src/mime/write/stored-draft.ts';
import { message, read } from '../read-fixture.ts';

/* Files and messages that other parts hold: uuencode in a text, and opaque-signed S/MIME. */

const TEXT = 'Content-Type: text/plain\r\n\r\nhello';
const PDF = 'Content-Type: application/pdf; name=a.pdf\r\n\r\n%PDF-1';
const seen = async (source: Buffer) => {
  const mail = await read(source);
  const files = mail.attachments.map(({ name, content }) => [name, (content as Buffer).toString('latin1')]);
  return { plain: mail.bodyPlain.trim(), files };
};

describe('a uuencoded file in a text', () => {
  const plain = (body: string) => seen(message(['From: a@b.example', 'Content-Type: text/plain'], body));

  test('is a file, and the text around it stays', async () => {
    const found = await plain(
      'See:\r\n\r\nbegin 644 cat.txt\r\n#0V%T\r\n`\r\nend\r\nand\r\nbegin 644 b.bin\r\n#0V%T\r\nend\r\nBye',
    );
    expect(found).toEqual({
      plain: 'See:\n\nand\nBye',
      files: [
        ['cat.txt', 'Cat'],
        ['b.bin', 'Cat'],
      ],
    });
  });

  test.each([
    'begin 644 cat.txt\r\nnot uuencode at all\r\nend',
    'begin 644 cat.txt\r\n#0V%T',
    'begin the day\r\n#0V%T\r\nend',
    'we begin 644 cat.txt\r\n#0V%T\r\nend',
  ])('%j is text', async (body) => {
    expect(await plain(body)).toEqual({ plain: body.replaceAll('\r\n', '\n'), files: [] });
  });
});

describe('a message that is signed in one piece (S/MIME)', () => {
  let dir: string;
  const openssl = (...args: string[]) =>
    execFileSync('openssl', args, { cwd: dir, stdio: ['ignore', 'pipe', 'ignore'] });
  beforeAll(() => {
    dir = mkdtempSync(join(tmpdir(), 'signed-'));
    openssl(
      'req',
      '-x509',
      '-newkey',
      'rsa:2048',
      '-nodes',
      '-keyout',
      'key.pem',
      '-out',
      'cert.pem',
      '-days',
      '2',
      '-subj',
      '/CN=a',
    );
    writeFileSync(
      join(dir, 'in.eml'),
      `Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n${TEXT}\r\n--b\r\n${PDF}\r\n--b--\r\n`,
    );
  });
  afterAll(() => rmSync(dir, { recursive: true, force: true }));

  /** The arguments that sign in.eml in one piece. */
  const signing = (...more: string[]) => {
    const files = ['-signer', 'cert.pem', '-inkey', 'key.pem', '-in', 'in.eml'];
    return ['cms', '-sign', '-nodetach', '-binary', ...more, ...files];
  };

  test.each([
    ['with lengths', []],
    ['without lengths', ['-stream']],
  ])('%s is read', async (_, more) => {
    const args = signing(...more);
    const source = openssl(...args, '-outform', 'SMIME', '-from', 'a@b.example');
    const { plain, files } = await seen(source);
    expect(plain).toBe('hello');
    expect(files.map(([name]) => name)).toEqual(['a.pdf', 'smime.p7m']);
    const der = openssl(...args, '-outform', 'DER');
    expect(signedContent(der)?.toString()).toContain('%PDF-1');
    for (let cut = 0; cut < 200; cut += 7)
      expect(signedContent(der.subarray(0, cut)) ?? Buffer.alloc(0)).toHaveLength(0);
  });

  test('is forwarded inline with its text and files', async () => {
    const source = openssl(...signing(), '-outform', 'SMIME', '-from', 'a@b.example');
    const { plainText, attachments } = await readForwarded(source, dir);
    expect(plainText?.trim()).toBe('hello');
    expect(attachments.map(({ filename }) => filename)).toEqual(['a.pdf', 'smime.p7m']);
  });

  test('that is encrypted stays a file', async () => {
    const source = openssl(
      'cms',
      '-encrypt',
      '-binary',
      '-in',
      'in.eml',
      '-outform',
      'SMIME',
      '-from',
      'a@b.example',
      'cert.pem',
    );
    const { plain, files } = await seen(source);
    expect([plain, files.map(([name]) => name)]).toEqual(['', ['smime.p7m']]);
  });

  test.each(['3080', '30800603', `${'3080'.repeat(5000)}`, '30ff', '3084ffffffff', ''])(
    'broken bytes %.12s are no message',
    (hex) => {
      expect(signedContent(Buffer.from(hex, 'hex'))).toBeNull();
    },
  );
});
