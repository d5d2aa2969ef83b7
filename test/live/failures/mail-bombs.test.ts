import { readFileSync, writeFileSync } from 'node:fs';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { type ConnectedUser, connectUser, type OwnLive, startLive } from '../../helpers/product/live.ts';
import { emailOf } from '../../helpers/fakes/receiver.ts';

/** Mails that were made to cost as much as they can: each is stored, and the next mail is reported. */

const MOST_MEMORY_MB = 600;

let live: OwnLive;
let owner: ConnectedUser;

beforeAll(async () => {
  live = await startLive();
  owner = await connectUser(live);
}, 180_000);
afterAll(() => live?.close());

const HEAD = 'From: Ann <ann@x.test>\r\nTo: bo@x.test\r\nMIME-Version: 1.0\r\n';
const TEXT = '\r\nsome text\r\n';

function multipart(parts: number): string {
  const part = '--b\r\nContent-Type: text/plain; name=a.txt\r\nContent-Disposition: attachment\r\n\r\nx\r\n';
  return `Content-Type: multipart/mixed; boundary=b\r\n\r\n${part.repeat(parts)}--b--\r\n`;
}

function nested(depth: number): string {
  const types = Array.from(
    { length: depth },
    (_, n) => `Content-Type: multipart/mixed; boundary=b${n}\r\n\r\n--b${n}\r\n`,
  );
  return `${types.join('')}Content-Type: text/plain\r\n${TEXT}`;
}

/** Its subject is its name. */
const BOMBS: Record<string, () => string> = {
  'a header of 100 MB': () => `X-Long: ${`${'x'.repeat(998)}\r\n `.repeat(100_000)}\r\n${TEXT}`,
  '10,000 parts': () => multipart(10_000),
  '1,000,000 recipients': () => `Cc: ${'a@x.test,\r\n '.repeat(999_999)}a@x.test\r\n${TEXT}`,
  'multiparts 1,000 deep': () => nested(1_000),
  'groups within groups of addresses': () => `Cc: ${'a:'.repeat(500_000)}\r\n${TEXT}`,
  '100,000 fields of the header': () => `${'X-One: 1\r\n'.repeat(100_000)}${TEXT}`,
  'a million encoded words': () => `X-Words: ${'=?utf-8?q?a?=\r\n '.repeat(1_000_000)}\r\n${TEXT}`,
  'a text that looks like the beginning of a quote again and again': () =>
    `Content-Type: text/plain\r\n\r\n${'On Mon, Jan 1, 2024 at 1:00 PM Ann <ann@x.test> \r\n'.repeat(40_000)}`,
  'HTML 200,000 deep': () => `Content-Type: text/html\r\n\r\n${'<div>'.repeat(200_000)}some text`,
};

/** The most that the worker had in memory since `forgetMost`, MB. */
function mostMemory(pid: number): number {
  const [, kB = '0'] = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
  return Math.round(Number(kB) / 1024);
}

/** proc(5), clear_refs. */
const forgetMost = (pid: number) => writeFileSync(`/proc/${pid}/clear_refs`, '5');

test.each(Object.entries(BOMBS))(
  '%s',
  async (name, make) => {
    const worker = live.product.pids()[1] as number;
    forgetMost(worker);
    const raw = Buffer.from(`Subject: ${name}\r\n${HEAD}${make()}`);
    await owner.box.append('INBOX', raw);
    await owner.box.append('INBOX', { to: owner.user.user, subject: `next to ${name}` });
    for (const subject of [name, `next to ${name}`]) {
      await owner.event('email.new', (call) => emailOf(call).subject === subject, { timeoutMs: 90_000 });
    }
    expect(mostMemory(worker)).toBeLessThan(MOST_MEMORY_MB);
  },
  120_000,
);
