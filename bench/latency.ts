import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { OLD_CAPABILITIES, startDovecot } from '../test/helpers/servers/dovecot.ts';
import { mailServers } from '../test/helpers/servers/mail-servers.ts';
import { addUser } from '../test/helpers/product/mail-user.ts';
import { type Bounds, type Figures, percentile } from './figures.ts';
import { idleClient } from './ground/idle-client.ts';
import { benchMail, benchMessageId } from './ground/mails.ts';
import {
  type Bench,
  type BenchMailbox,
  type ConnectedMailbox,
  type Reporter,
  watchedMailboxes,
} from './ground/setup.ts';

interface Stream {
  boxes: ConnectedMailbox[];
  folder: string;
  mails: number;
  perSecond: number;
  timeoutMs?: number;
  /** when another client saw each mail, ms since 1970 */
  seen?: Map<string, number>;
}

/**
 * Appends mails in sequence, alternating between the mailboxes; the time from each APPEND to the arrival of its webhook, and to
 * when another client saw it, in milliseconds.
 */
export async function waitsOf(
  bench: Reporter,
  { boxes, folder, mails, perSecond, timeoutMs = 60_000, seen }: Stream,
): Promise<{ reported: number[]; seen: number[] | undefined }> {
  const series = `lat${randomBytes(4).toString('hex')}`;
  const sent: number[] = [];
  const began = Date.now();
  for (let number = 0; number < mails; number++) {
    await sleep(Math.max(0, began + (number * 1000) / perSecond - Date.now()));
    const box = boxes[number % boxes.length] as ConnectedMailbox;
    const mail = benchMail(series, number, { to: box.user.user });
    sent.push(Date.now());
    await box.imap.append(folder, [mail]);
  }
  await bench.allReported(series, mails, timeoutMs);
  const waits = (at: (messageId: string) => number | undefined) =>
    sent.map((sentAt, number) => (at(benchMessageId(series, number)) ?? Number.NaN) - sentAt);
  return { reported: waits((id) => bench.reportedAt(id)), seen: seen && waits((id) => seen.get(id)) };
}

async function measure(bench: Bench, stream: Stream): Promise<Figures> {
  const { reported, seen } = await waitsOf(bench, stream);
  return { ...figuresOf(reported), ...(seen && figuresOf(seen, '  an idling client: ')) };
}

export const figuresOf = (waits: number[], prefix = ''): Figures => ({
  [`${prefix}p50, ms`]: percentile(waits, 0.5),
  [`${prefix}p95, ms`]: percentile(waits, 0.95),
  [`${prefix}p99, ms`]: percentile(waits, 0.99),
  [`${prefix}max, ms`]: Math.max(...waits),
});

/** 200 mails at 5/s into the idle INBOX of 10 accounts, with an idling client beside each. */
export const idle = {
  title: 'APPEND to webhook, 200 mails at 5/s on the INBOX of 10 accounts',
  bounds: { 'p50, ms': { most: 600 }, 'p99, ms': { most: 750 } } satisfies Bounds,
  limits: { 'p50, ms': 'an idling client: p50, ms', 'p99, ms': 'an idling client: p99, ms' },
  prepare: async (bench: Bench): Promise<Watched> => {
    const boxes = await watchedMailboxes(bench, 10);
    const seen = new Map<string, number>();
    const clients = await Promise.all(boxes.map(({ user }) => idleClient(user, seen)));
    bench.alsoStop.push(...clients.map(({ stop }) => stop));
    return { boxes, seen };
  },
  round: (bench: Bench, { boxes, seen }: Watched) =>
    measure(bench, { boxes, folder: 'INBOX', mails: 200, perSecond: 5, seen }),
};

interface Watched {
  boxes: BenchMailbox[];
  /** when an idling client saw each mail */
  seen: Map<string, number>;
}

/** The latency of mail in another folder, on a server with NOTIFY. */
export const otherFolder = {
  title: 'APPEND to webhook, 100 mails at 5/s into Archive of 10 accounts, server with NOTIFY',
  bounds: { 'p99, ms': { most: 2_000 }, 'max, ms': { most: 2_000 } } satisfies Bounds,
  prepare: (bench: Bench) => watchedMailboxes(bench, 10),
  round: (bench: Bench, boxes: BenchMailbox[]) =>
    measure(bench, { boxes, folder: 'Archive', mails: 100, perSecond: 5 }),
};

/** The latency of mail in another folder, on a server without any extension. */
export const otherFolderOldServer = {
  title: 'APPEND to webhook, 40 mails at 1/s into Filed of 10 accounts, server without any extension',
  bounds: { 'max, ms': { most: 30_000 } } satisfies Bounds,
  prepare: async (bench: Bench) => {
    const { certificate } = mailServers();
    const options = { certificate, capabilities: OLD_CAPABILITIES, bareFolders: true };
    const { stop, ...dovecot } = await startDovecot(`${bench.dir}/old`, options);
    bench.alsoStop.push(stop);
    return watchedMailboxes(bench, 10, {
      dovecot,
      fill: async (imap, { user, password }) => {
        // Postfix checks logins with the other Dovecot
        await addUser({ user, password });
        await imap.create('Filed');
      },
    });
  },
  round: (bench: Bench, boxes: BenchMailbox[]) =>
    measure(bench, { boxes, folder: 'Filed', mails: 40, perSecond: 1, timeoutMs: 90_000 }),
};

/** One mailbox under constant load. */
export const stream = {
  title: 'APPEND to webhook, one mailbox, 2 mails a second for 30 s',
  bounds: { 'max, ms': { most: 2_000 } } satisfies Bounds,
  prepare: (bench: Bench) => watchedMailboxes(bench, 1),
  round: (bench: Bench, boxes: BenchMailbox[]) => measure(bench, { boxes, folder: 'INBOX', mails: 60, perSecond: 2 }),
};
