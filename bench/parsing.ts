import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { projectRoot } from '../src/runtime/project-root.ts';
import type { readMessage } from '../src/mime/read/read-message.ts';
import { type Bounds, type Figures, median } from './figures.ts';

const HEAD =
  'From: "Ann" <ann@x.test>\r\nTo: bo@x.test\r\nSubject: figures\r\nMessage-ID: <a@x.test>\r\nMIME-Version: 1.0\r\n';
const RECEIVED = 'Received: from a.x.test by b.x.test with ESMTPS id 1; Mon, 4 Mar 2024 05:06:07 +0000\r\n'.repeat(12);
const CELL = '<tr><td style="color:#333">A cell <b>of</b> a newsletter &amp; more</td></tr>\r\n';
const TEXT = 'Content-Type: text/plain; charset=utf-8\r\n\r\nsee the file\r\n';

/** An HTML document of about that many bytes: a table as in newsletters. */
export function tableHtml(bytes: number): string {
  return `<html><body><table>${CELL.repeat(bytes / CELL.length)}</table></body></html>`;
}

function file(bytes: number): string {
  const content = Buffer.alloc(bytes, 'attachment ').toString('base64').replace(/.{76}/g, '$&\r\n');
  return `Content-Type: application/pdf; name=a.pdf\r\nContent-Disposition: attachment\r\nContent-Transfer-Encoding: base64\r\n\r\n${content}`;
}

function multipart(subtype: string, parts: string[]): string {
  const body = parts.map((part) => `--b\r\n${part}\r\n`).join('');
  return `${RECEIVED}${HEAD}Content-Type: multipart/${subtype}; boundary=b\r\n\r\n${body}--b--\r\n`;
}

interface Size {
  mail: string;
  /** how often it is read in a round */
  times: number;
  mostMs: number;
}

const SIZES: Record<string, Size> = {
  '10 KB, text and HTML': {
    mail: multipart('alternative', [
      `Content-Type: text/plain\r\n\r\n${'Some words of a text.\r\n'.repeat(90)}`,
      `Content-Type: text/html\r\n\r\n${tableHtml(5_500)}`,
    ]),
    times: 300,
    mostMs: 2.5,
  },
  '100 KB of HTML': {
    mail: `${HEAD}Content-Type: text/html; charset=utf-8\r\n\r\n${tableHtml(100_000)}`,
    times: 60,
    mostMs: 20,
  },
  '5 MB of attachments': { mail: multipart('mixed', [TEXT, file(1.9e6), file(1.9e6)]), times: 9, mostMs: 100 },
  '25 MB of attachments': { mail: multipart('mixed', [TEXT, file(18.5e6)]), times: 3, mostMs: 500 },
};

interface Prepared {
  read: typeof readMessage;
  spillDir: string;
}

/** CPU of reading one mail, ms, with all threads of the process that reads it: the median of several, after as many to warm up. */
export const parsing = {
  title: 'CPU of reading a mail, ms',
  bounds: Object.fromEntries(Object.entries(SIZES).map(([name, { mostMs }]) => [name, { most: mostMs }])) as Bounds,
  prepare: async (): Promise<Prepared> => {
    const built = join(projectRoot(), 'dist', 'src', 'mime', 'read', 'read-message.js');
    const { readMessage: read } = (await import(built)) as { readMessage: typeof readMessage };
    return { read, spillDir: join(await mkdtemp(join(tmpdir(), 'parsing-')), 'files') };
  },
  round: async (_: unknown, { read, spillDir }: Prepared): Promise<Figures> => {
    const figures: Figures = {};
    for (const [name, { mail, times }] of Object.entries(SIZES)) {
      const bytes = Buffer.from(mail);
      const costs: number[] = [];
      for (let index = 0; index < times * 2; index++) {
        const before = process.cpuUsage();
        await read(bytes, { isTimeUp: () => false, spillDir });
        const { user, system } = process.cpuUsage(before);
        if (index >= times) costs.push((user + system) / 1000);
        await rm(spillDir, { recursive: true, force: true });
      }
      figures[name] = median(costs);
    }
    return figures;
  },
};
