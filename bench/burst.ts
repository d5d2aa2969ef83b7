import { randomBytes } from 'node:crypto';
import { openMailbox } from '../test/helpers/product/mailbox.ts';
import type { Bounds, Figures } from './figures.ts';
import { benchMail, benchMessageId } from './ground/mails.ts';
import { byPart, cpuOfParts, processTree } from './ground/process-tree.ts';
import { type Bench, type ConnectedMailbox, type Reporter, watchedMailboxes } from './ground/setup.ts';

export const MAILS = 2_000;

/** 2,000 mails of 10 KB appended together over 10 accounts, until the last webhook. */
export const burst = {
  title: `${MAILS} mails of 10 KB appended together over 10 accounts`,
  bounds: {
    'mails/s': { least: 350 },
    'CPU ms per mail': { most: 5 },
    lost: { most: 0 },
    'reported twice': { most: 0 },
  } satisfies Bounds,
  limits: { 'mails/s': 'FETCH of the same, mails/s' },
  prepare: (bench: Bench) => watchedMailboxes(bench, 10),
  round: async (bench: Bench, boxes: ConnectedMailbox[]): Promise<Figures> => {
    const before = byPart(processTree(bench.pid));
    const { 'mails/s': rate = 0, ...burst } = await burstOf(bench, boxes);
    const after = byPart(processTree(bench.pid));
    return {
      'mails/s': rate,
      '  FETCH of the same, mails/s': await fetchRate(boxes),
      ...burst,
      ...cpuOfParts('CPU ms per mail', { before, after, count: MAILS }),
    };
  },
};

/** Appends the mails of a burst together, until the webhook of each has arrived. */
export async function burstOf(bench: Reporter, boxes: ConnectedMailbox[]): Promise<Figures> {
  const series = `burst${randomBytes(4).toString('hex')}`;
  const mails = boxes.map(({ user }, owner) =>
    Array.from({ length: MAILS / boxes.length }, (_, index) =>
      benchMail(series, index * boxes.length + owner, { to: user.user }),
    ),
  );
  const began = Date.now();
  await Promise.all(boxes.map(({ imap }, owner) => imap.append('INBOX', mails[owner] ?? [])));
  const appended = Date.now();
  await bench.allReported(series, MAILS, 120_000).catch((error: unknown) => console.log(String(error)));
  const times = Array.from({ length: MAILS }, (_, n) => bench.reportedAt(benchMessageId(series, n))).filter(
    (at) => at !== undefined,
  );
  const last = Math.max(...times);
  return {
    'mails/s': (times.length / (last - began)) * 1000,
    'appended after, ms': appended - began,
    'first webhook, ms': Math.min(...times) - began,
    'last webhook, ms': last - began,
    lost: MAILS - times.length,
    'reported twice': bench.reportsOf(series) - times.length,
  };
}

/** The rate of an IMAP client that fetches the same mails, on one parallel connection for each account. */
async function fetchRate(boxes: ConnectedMailbox[]): Promise<number> {
  const clients = await Promise.all(boxes.map(({ user }) => openMailbox(user)));
  const began = Date.now();
  const counts = await Promise.all(
    clients.map(async ({ client }) => {
      const { exists } = await client.mailboxOpen('INBOX', { readOnly: true });
      const first = Math.max(1, exists - MAILS / boxes.length + 1);
      let count = 0;
      for await (const { source } of client.fetch(`${first}:*`, { source: true, envelope: true }))
        if (source) count += 1;
      return count;
    }),
  );
  const ms = Date.now() - began;
  await Promise.all(clients.map((client) => client.close()));
  return (counts.reduce((sum, count) => sum + count, 0) / ms) * 1000;
}
