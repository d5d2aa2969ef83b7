import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Bounds, type Figures, percentile } from './figures.ts';
import { benchMail, benchMessageId } from './ground/mails.ts';
import { tableHtml } from './parsing.ts';
import { type Bench, type BenchMailbox, watchedMailboxes } from './ground/setup.ts';

const LARGE = 5;
const LARGE_BYTES = 10 * 1024 * 1024;
const PROBES = 60;
const PROBES_PER_S = 4;

/** Sends mails to an account until `isOver`, which receives their number: from the APPEND to the webhook's arrival, ms. */
async function probe(bench: Bench, box: BenchMailbox, isOver: (count: number) => boolean): Promise<number[]> {
  const series = `probe${randomBytes(4).toString('hex')}`;
  const sent: number[] = [];
  const began = Date.now();
  while (!isOver(sent.length)) {
    await sleep(Math.max(0, began + (sent.length * 1000) / PROBES_PER_S - Date.now()));
    const mail = benchMail(series, sent.length, { to: box.user.user });
    sent.push(Date.now());
    await box.imap.append('INBOX', [mail]);
  }
  await bench.allReported(series, sent.length, 120_000);
  return sent.map((at, number) => (bench.reportedAt(benchMessageId(series, number)) ?? Number.NaN) - at);
}

function largeMail(series: string, number: number): Buffer {
  const head = `From: news@elsewhere.test\r\nSubject: large ${number}\r\nMessage-ID: ${benchMessageId(series, number)}\r\n`;
  return Buffer.from(
    `${head}MIME-Version: 1.0\r\nContent-Type: text/html; charset=utf-8\r\n\r\n${tableHtml(LARGE_BYTES)}`,
  );
}

/** Mail of one account, alone and while another receives five mails of 10 MB of HTML together. */
export const largeMails = {
  title: `APPEND to webhook of one account beside ${LARGE} mails of 10 MB of HTML at another`,
  bounds: { 'added to p99, ms': { most: 1_000 }, 'added to p50, ms': { most: 1_000 } } satisfies Bounds,
  prepare: (bench: Bench) => watchedMailboxes(bench, 2),
  round: async (bench: Bench, boxes: BenchMailbox[]): Promise<Figures> => {
    const [other, full] = boxes as [BenchMailbox, BenchMailbox];
    const alone = await probe(bench, other, (count) => count >= PROBES);
    const series = `large${randomBytes(4).toString('hex')}`;
    const mails = Array.from({ length: LARGE }, (_, number) => largeMail(series, number));
    let isOver = false;
    const began = Date.now();
    const load = full.imap
      .append('INBOX', mails)
      .then(() => bench.allReported(series, LARGE, 180_000))
      .then(() => Date.now() - began)
      .finally(() => {
        isOver = true;
      });
    const [beside, took] = await Promise.all([probe(bench, other, () => isOver), load]);
    return {
      'alone: p50, ms': percentile(alone, 0.5),
      'alone: p99, ms': percentile(alone, 0.99),
      'beside: p50, ms': percentile(beside, 0.5),
      'beside: p99, ms': percentile(beside, 0.99),
      'beside: most, ms': Math.max(...beside),
      'added to p50, ms': percentile(beside, 0.5) - percentile(alone, 0.5),
      'added to p99, ms': percentile(beside, 0.99) - percentile(alone, 0.99),
      'the large mails, ms': took,
    };
  },
};
