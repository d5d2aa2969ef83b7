// `node scripts/parsing/cost.mjs`: CPU of this process for parsing one message of each size, the median of several,
// compared with bare mailparser; docs/mail-reading.md has the last figures.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { simpleParser } from 'mailparser';
import { register } from 'tsx/esm/api';

register();
const { readMessage } = await import('../../src/mime/read/read-message.ts');
const dir = mkdtempSync(join(tmpdir(), 'cost-'));
const HEAD =
  'From: "Ann" <ann@x.test>\r\nTo: bo@x.test\r\nSubject: figures\r\nMessage-ID: <a@x.test>\r\nMIME-Version: 1.0\r\n';
const RECEIVED = 'Received: from a.x.test by b.x.test with ESMTPS id 1; Mon, 4 Mar 2024 05:06:07 +0000\r\n'.repeat(12);
const html = (bytes) =>
  `<html><body>${'<tr><td style="color:#333">A cell <b>of</b> a newsletter &amp; more</td></tr>\r\n'.repeat(bytes / 78)}</body></html>`;
const base64 = (bytes) => Buffer.alloc(bytes, 'attachment ').toString('base64').replace(/.{76}/g, '$&\r\n');
const mixed = (parts) =>
  `${HEAD}Content-Type: multipart/mixed; boundary=b\r\n\r\n${parts.map((each) => `--b\r\n${each}\r\n`).join('')}--b--\r\n`;
const text = 'Content-Type: text/plain; charset=utf-8\r\n\r\nsee the file\r\n';
const file = (bytes) =>
  `Content-Type: application/pdf; name=a.pdf\r\nContent-Disposition: attachment\r\nContent-Transfer-Encoding: base64\r\n\r\n${base64(bytes)}`;
const alternative = `${RECEIVED}${HEAD}Content-Type: multipart/alternative; boundary=b\r\n\r\n--b\r\nContent-Type: text/plain\r\n\r\n${'Some words of a text.\r\n'.repeat(90)}\r\n--b\r\nContent-Type: text/html\r\n\r\n${html(5_500)}\r\n--b--\r\n`;

const SIZES = [
  ['10 KB, text and HTML', alternative, 200],
  ['100 KB of HTML', `${HEAD}Content-Type: text/html; charset=utf-8\r\n\r\n${html(100_000)}`, 50],
  ['5 MB of attachments', mixed([text, file(1.9e6), file(1.9e6)]), 9],
  ['25 MB of attachments', mixed([text, file(18.5e6)]), 3],
];

async function medianOf(times, read) {
  const costs = [];
  for (let n = 0; n < times + 3; n++) {
    const started = process.cpuUsage();
    await read();
    const { user, system } = process.cpuUsage(started);
    if (n >= 3 || times < 5) costs.push((user + system) / 1000);
  }
  return costs.sort((a, b) => a - b)[costs.length >> 1];
}

try {
  console.log('| Mail | Bytes | This product, ms of CPU | Bare mailparser |\n|-|-|-|-|');
  for (const [name, source, times] of SIZES) {
    const bytes = Buffer.from(source);
    const own = await medianOf(times, () =>
      readMessage(bytes, { isTimeUp: () => false, spillDir: join(dir, 'spill') }),
    );
    const bare = await medianOf(times, () => simpleParser(bytes));
    console.log(`| ${name} | ${bytes.length} | ${own.toFixed(1)} | ${bare.toFixed(1)} |`);
  }
} finally {
  rmSync(dir, { recursive: true, force: true });
}
