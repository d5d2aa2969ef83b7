import { readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ParsedMail } from '../../src/mime/read/parsed-mail.ts';
import { readMessage } from '../../src/mime/read/read-message.ts';

/** Bytes of test/fixtures/<name>.eml. */
export const fixture = (name: string): Buffer => readFileSync(new URL(`../fixtures/${name}.eml`, import.meta.url));

/** Reads a message in this thread, with time to spare; files never spill unless they are large. */
export const read = (source: Buffer): Promise<ParsedMail> =>
  readMessage(source, { isTimeUp: () => false, spillDir: join(tmpdir(), `mail-test-${process.pid}`) });

export const readFixture = (name: string): Promise<ParsedMail> => read(fixture(name));

/** A message of header lines and a body, with CRLF line ends. */
export const message = (lines: string[], body = ''): Buffer => Buffer.from(`${lines.join('\r\n')}\r\n\r\n${body}`);
