import { setTimeout as sleep } from 'node:timers/promises';
import type { Email } from '../src/contract/email.ts';
import { type Bounds, type Figures, median, percentile } from './figures.ts';
import { benchMail } from './ground/mails.ts';
import { type Bench, type BenchMailbox, watchedMailboxes } from './ground/setup.ts';

const SENDS = 500;
const MAILS = 60;
const PAUSE_MS = 100;

interface Prepared {
  sender: BenchMailbox;
  other: BenchMailbox;
}

/** 500 sends of one account at once, while the owner of another mailbox marks mail as read. */
export const sendBurst = {
  title: `marks of another account while one account makes ${SENDS} sends at once`,
  bounds: { 'mark beside the sends, times as long': { most: 1.2 } } satisfies Bounds,
  prepare: async (bench: Bench): Promise<Prepared> => {
    const [sender, other] = (await watchedMailboxes(bench, 2)) as [BenchMailbox, BenchMailbox];
    return { sender, other };
  },
  round: async (bench: Bench, { sender, other }: Prepared): Promise<Figures> => {
    const ids = await received(bench, other);
    const alone = await marks(bench, other, ids, () => true);
    let isSending = true;
    const began = performance.now();
    const sends = Promise.all(Array.from({ length: SENDS }, (_, number) => send(bench, sender, number))).finally(
      () => (isSending = false),
    );
    await sleep(1000);
    const beside = await marks(bench, other, ids, () => isSending);
    const statuses = await sends;
    const tookMs = performance.now() - began;
    const sent = statuses.filter((status) => status === 200).length;
    return {
      'mark alone p50, ms': median(alone),
      'mark alone p99, ms': percentile(alone, 0.99),
      'mark beside the sends p50, ms': median(beside),
      'mark beside the sends p99, ms': percentile(beside, 0.99),
      'mark beside the sends, times as long': median(beside) / median(alone),
      marks: beside.length,
      sent,
      'refused with 429': statuses.filter((status) => status === 429).length,
      'other answers': statuses.filter((status) => status !== 200 && status !== 429).length,
      'sends/s': (sent / tookMs) * 1000,
    };
  },
};

async function send(bench: Bench, { account, user }: BenchMailbox, number: number): Promise<number> {
  const response = await bench.api.request('POST', `/${account.id}/emails/send`, {
    to: [{ email: user.user }],
    subject: `burst ${number}`,
    html: '<p>How are you?</p>',
  });
  await response.arrayBuffer();
  return response.status;
}

/** The times of marks, ms, while `go` holds: each mail at most twice. */
async function marks(bench: Bench, { account }: BenchMailbox, ids: string[], go: () => boolean): Promise<number[]> {
  const times: number[] = [];
  for (const mark of ['read', 'unread'])
    for (const id of ids) {
      if (!go()) break;
      await sleep(PAUSE_MS);
      const began = performance.now();
      await bench.api.post(`/${account.id}/emails/${id}/${mark}`);
      times.push(performance.now() - began);
    }
  return times;
}

let series = 0;

async function received(bench: Bench, { user, imap, account }: BenchMailbox): Promise<string[]> {
  const name = `beside${process.pid}x${++series}`;
  await imap.append(
    'INBOX',
    Array.from({ length: MAILS }, (_, number) => benchMail(name, number, { to: user.user })),
  );
  await bench.allReported(name, MAILS, 60_000);
  const inbox = await bench.api.folder(account.id, 'INBOX');
  const list = await bench.api.get<{ data: Email[] }>(
    `/${account.id}/folders/${inbox.id}/emails?limit=250&meta_only=true`,
  );
  return list.data.map(({ id }) => id).slice(0, MAILS);
}
