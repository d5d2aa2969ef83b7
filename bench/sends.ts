import { randomBytes } from 'node:crypto';
import nodemailer from 'nodemailer';
import { addUser, type MailUser } from '../test/helpers/product/mail-user.ts';
import { type Mailbox, openMailbox } from '../test/helpers/product/mailbox.ts';
import { waitFor } from '../test/helpers/assert/wait.ts';
import { type Bounds, type Figures, median, percentile } from './figures.ts';
import { byPart, cpuOfParts, processTree } from './ground/process-tree.ts';
import { type Bench, type BenchMailbox, type ConnectedMailbox, watchedMailboxes } from './ground/setup.ts';

export const SENDS = 500;
const AT_A_TIME = 8;
/** sends that measure the SMTP server itself */
const BARE = 100;
export const HTML = `<html><body>${'<p>How are you, and what is new over there?</p>\n'.repeat(40)}</body></html>`;

interface Prepared {
  sender: BenchMailbox;
  reader: MailUser;
  inbox: Mailbox;
}

/** 500 sends through the API, 8 at a time, until all are in the recipient's mailbox. */
export const sends = {
  title: `${SENDS} sends at ${AT_A_TIME} at a time, of one account to one mailbox`,
  bounds: {
    'call beyond bare SMTP, p50 ms': { most: 120 },
    refused: { most: 0 },
    lost: { most: 0 },
    'arrived twice': { most: 0 },
    'Sent copies missing or double': { most: 0 },
  } satisfies Bounds,
  prepare: async (bench: Bench): Promise<Prepared> => {
    const [sender] = (await watchedMailboxes(bench, 1)) as [BenchMailbox];
    const reader = await addUser();
    const inbox = await openMailbox(reader);
    bench.alsoStop.push(() => inbox.close());
    await callsOf(8, 1, (number) => send(bench, sender, reader, 'warm', number));
    return { sender, reader, inbox };
  },
  round: async (bench: Bench, { sender, reader, inbox }: Prepared): Promise<Figures> => {
    const series = `sends${randomBytes(4).toString('hex')}`;
    const withLogin = await bareSends(sender.user, reader, { count: BARE, atATime: 1, reuse: false });
    const oneByOne = await bareSends(sender.user, reader, { count: BARE, atATime: 1, reuse: true });
    const bare = await bareSends(sender.user, reader, { count: BARE, atATime: AT_A_TIME, reuse: true });
    const alone = await callsOf(50, 1, (number) => send(bench, sender, reader, 'alone', number));

    const { name: sent } = await bench.api.folder(sender.account.id, 'SENT');
    const before = byPart(processTree(bench.pid));
    const burst = await sendsOf((number) => send(bench, sender, reader, series, number), {
      series,
      sender: sender.user,
      sent,
      inbox,
    });
    const after = byPart(processTree(bench.pid));
    const bareP50 = median(bare);
    return {
      ...burst,
      'bare SMTP p50, ms': bareP50,
      'call beyond bare SMTP, p50 ms': (burst['call p50, ms'] ?? Number.NaN) - bareP50,
      'call alone p50, ms': median(alone.map(({ ms }) => ms)),
      'bare SMTP alone p50, ms': median(oneByOne),
      'bare SMTP alone with login p50, ms': median(withLogin),
      ...cpuOfParts('CPU ms per mail', { before, after, count: SENDS }),
    };
  },
};

export interface SendCall {
  ms: number;
  /** of a send that was accepted */
  messageId: string | undefined;
}

interface Sends {
  /** what every subject contains */
  series: string;
  sender: MailUser;
  /** the sender's folder of copies */
  sent: string;
  inbox: Mailbox;
}

/** Sends until all mails are in the recipient's INBOX, and a copy of each in the folder of sent mail. */
export async function sendsOf(
  send: (number: number) => Promise<SendCall>,
  { series, sender, sent, inbox }: Sends,
): Promise<Figures> {
  const arrival = whenAllArrive(inbox, series);
  const began = Date.now();
  const calls = await callsOf(SENDS, AT_A_TIME, send);
  const accepted = Date.now();
  const arrived = await arrival;
  const copies = await sentCopies(sender, sent, series);
  const found = await subjects(inbox, 'INBOX', series);
  const ms = calls.map(({ ms }) => ms);
  const taken = calls.filter(({ messageId }) => messageId !== undefined).length;
  return {
    'accepted/s': (taken / (accepted - began)) * 1000,
    'delivered/s': (found.length / (arrived - began)) * 1000,
    'call p50, ms': median(ms),
    'call p99, ms': percentile(ms, 0.99),
    refused: SENDS - taken,
    lost: SENDS - new Set(found).size,
    'arrived twice': found.length - new Set(found).size,
    'Sent copies missing or double': Math.abs(SENDS - new Set(copies).size) + copies.length - new Set(copies).size,
  };
}

/** Sends a mail of 2 KB through the product. */
export async function send(
  { api }: Pick<Bench, 'api'>,
  { account }: Pick<ConnectedMailbox, 'account'>,
  reader: MailUser,
  series: string,
  number: number,
): Promise<SendCall> {
  const began = performance.now();
  const response = await api.request('POST', `/${account.id}/emails/send`, {
    to: [{ email: reader.user }],
    subject: `${series} ${number}`,
    html: HTML,
  });
  const answer = (await response.json()) as { message_id?: string; title?: string; detail?: string };
  if (!response.ok) console.log(`send ${number}: ${response.status} ${answer.title}: ${answer.detail}`);
  return { ms: performance.now() - began, messageId: answer.message_id };
}

/** Runs `work` for each number below `count`, `atATime` in parallel. */
export async function callsOf<T>(count: number, atATime: number, work: (number: number) => Promise<T>): Promise<T[]> {
  const results: T[] = [];
  let next = 0;
  const sendInTurn = async () => {
    for (let number = next++; number < count; number = next++) results[number] = await work(number);
  };
  await Promise.all(Array.from({ length: atATime }, sendInTurn));
  return results;
}

interface BareOptions {
  count: number;
  atATime: number;
  /** over as many connections as the product uses, else a login for each mail */
  reuse: boolean;
}

/** The time of each send by an ordinary SMTP client, ms. */
async function bareSends(user: MailUser, reader: MailUser, { count, atATime, reuse }: BareOptions): Promise<number[]> {
  const server = {
    host: '127.0.0.1',
    port: user.submissionPort,
    ignoreTLS: true,
    auth: { user: user.user, pass: user.password },
  };
  const transport = reuse
    ? nodemailer.createTransport({ ...server, pool: true, maxConnections: 3, maxMessages: 1_000 })
    : nodemailer.createTransport(server);
  try {
    return await callsOf(count, atATime, async () => {
      const began = performance.now();
      await transport.sendMail({ from: user.user, to: reader.user, subject: 'bare', html: HTML });
      return performance.now() - began;
    });
  } finally {
    transport.close();
  }
}

/** When the last mail of a series arrived in INBOX; the current time if some did not. */
async function whenAllArrive(inbox: Mailbox, series: string): Promise<number> {
  await waitFor(async () => (await uidsOf(inbox, 'INBOX', series)).length >= SENDS, {
    timeoutMs: 180_000,
    everyMs: 250,
  }).catch(() => console.log('some mails did not arrive'));
  return Date.now();
}

/** The subjects of a series in the sender's Sent folder, once all are filed. */
async function sentCopies(user: MailUser, name: string, series: string): Promise<string[]> {
  const mailbox = await openMailbox(user);
  try {
    await waitFor(async () => (await uidsOf(mailbox, name, series)).length >= SENDS, {
      timeoutMs: 60_000,
      everyMs: 250,
    }).catch(() => console.log('some copies are missing in Sent'));
    return await subjects(mailbox, name, series);
  } finally {
    await mailbox.close();
  }
}

async function uidsOf({ client }: Mailbox, folder: string, series: string): Promise<number[]> {
  const lock = await client.getMailboxLock(folder);
  try {
    await client.noop();
    return (await client.search({ header: { subject: series } }, { uid: true })) || [];
  } finally {
    lock.release();
  }
}

async function subjects(mailbox: Mailbox, folder: string, series: string): Promise<string[]> {
  const uids = await uidsOf(mailbox, folder, series);
  if (uids.length === 0) return [];
  const lock = await mailbox.client.getMailboxLock(folder);
  try {
    const found = await mailbox.client.fetchAll(uids, { envelope: true }, { uid: true });
    return found.map(({ envelope }) => envelope?.subject ?? '');
  } finally {
    lock.release();
  }
}
