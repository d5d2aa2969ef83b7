import { randomBytes } from 'node:crypto';
import { addUser, type MailUser } from '../../test/helpers/product/mail-user.ts';
import { type Mailbox, openMailbox } from '../../test/helpers/product/mailbox.ts';
import { burstOf, MAILS as BURST } from '../burst.ts';
import { type Figures, percentile } from '../figures.ts';
import { countWithin, MEASURED_MS, type Request, timesOf, WARM_UP_MS } from '../ground/callers.ts';
import { ownWord } from '../ground/mails.ts';
import { byPart, cpuMsOf, processTree } from '../ground/process-tree.ts';
import { type Bench, type ConnectedMailbox, watchedMailboxes } from '../ground/setup.ts';
import { waitsOf } from '../latency.ts';
import { emailEngineSettings, emailEngineSide } from './email-engine.ts';
import { productSide } from './product.ts';
import { DOMAIN, type Search, type Side } from './side.ts';
import { printSides } from './table.ts';
import { SENDS, sendsOf } from '../sends.ts';

const ACCOUNTS = 10;
const STREAM = { mails: 100, perSecond: 5 };
const SEARCHES = { requests: 100, atMostMs: 5_000 };

/** A side with its mailboxes. */
interface Prepared {
  side: Side;
  boxes: ConnectedMailbox[];
  /** the account with many mails, of this series */
  filled: { account: string; series: string; count: number };
  reads: Awaited<ReturnType<Side['reads']>>;
  sender: ConnectedMailbox;
  reader: MailUser;
  inbox: Mailbox;
}

interface Ground {
  sides: Prepared[];
  round: number;
}

/** The product and a prepared EmailEngine on the same mail servers, one after the other, figure by figure. */
export const peer = {
  title: 'the product and EmailEngine: the same mail servers and mails, figure by figure in turns',
  print: printSides,
  prepare: async (bench: Bench): Promise<Ground> => {
    const emailEngine = await emailEngineSide(emailEngineSettings());
    bench.alsoStop.push(() => emailEngine.stop());
    const count = bench.short ? 2_000 : 20_000;
    const filled = { series: `peer${randomBytes(4).toString('hex')}`, count };
    const sides: Prepared[] = [];
    for (const side of [productSide(bench), emailEngine]) sides.push(await prepared(bench, side, filled));
    return { sides, round: 0 };
  },
  round: async (bench: Bench, ground: Ground): Promise<Figures> => {
    const figures: Figures = {};
    // who begins is affected by what the other leaves behind
    const order = ground.round++ % 2 === 0 ? ground.sides : ground.sides.toReversed();
    for (const measure of [latency, burst, reads, searches, sends]) {
      for (const prepared of order) {
        const own = await measure(prepared, meterOf(bench, prepared.side));
        for (const [name, value] of Object.entries(own)) figures[`${prepared.side.name}: ${name}`] = value;
      }
    }
    return figures;
  },
};

async function prepared(bench: Bench, side: Side, { series, count }: { series: string; count: number }) {
  const options = { domain: DOMAIN, connect: { encryption: 'starttls' as const } };
  const account = await side.filled(series, count);
  const [sender] = (await watchedMailboxes(side, 1, options)) as [ConnectedMailbox];
  const reader = await addUser({ domain: DOMAIN });
  const inbox = await openMailbox(reader);
  bench.alsoStop.push(() => inbox.close());
  return {
    side,
    boxes: await watchedMailboxes(side, ACCOUNTS, options),
    filled: { account, series, count },
    reads: await side.reads(account),
    sender,
    reader,
    inbox,
  };
}

/** Measures the CPU of `work` for each of the things that it counts, as figures under the name of a row. */
type Meter = <T>(row: string, work: () => Promise<{ count: number; result: T }>) => Promise<[T, Figures]>;

function meterOf(bench: Bench, side: Side): Meter {
  const use = () =>
    new Map([
      ...[...byPart(side.pids.flatMap(processTree))].map(([part, { cpuMs }]) => [part, cpuMs] as const),
      [MAIL_SERVERS, bench.mailPids.reduce((sum, pid) => sum + cpuMsOf(pid), 0)],
    ]);
  return async (row, work) => {
    const before = use();
    const { count, result } = await work();
    const parts = [...use()].map(([part, ms]) => [part, (ms - (before.get(part) ?? 0)) / count] as const);
    const own = parts.filter(([part]) => part !== MAIL_SERVERS);
    return [
      result,
      {
        [`${row}: CPU ms`]: own.reduce((sum, [, ms]) => sum + ms, 0),
        ...Object.fromEntries(parts.map(([part, ms]) => [`${row}: CPU ms, ${part}`, ms])),
      },
    ];
  };
}

const MAIL_SERVERS = 'mail servers';

async function latency({ side, boxes }: Prepared, meter: Meter): Promise<Figures> {
  const row = 'APPEND to webhook, 5/s over 10 accounts';
  const [waits, cpu] = await meter(row, async () => {
    const { reported } = await waitsOf(side, { boxes, folder: 'INBOX', ...STREAM });
    return { count: STREAM.mails, result: reported };
  });
  return {
    [`${row}: p50, ms`]: percentile(waits, 0.5),
    [`${row}: p99, ms`]: percentile(waits, 0.99),
    [`${row}: p50 of the first mail of each, ms`]: percentile(waits.slice(0, ACCOUNTS), 0.5),
    ...cpu,
  };
}

async function burst({ side, boxes }: Prepared, meter: Meter): Promise<Figures> {
  const row = `${BURST} mails of 10 KB together`;
  const [figures, cpu] = await meter(row, async () => ({ count: BURST, result: await burstOf(side, boxes) }));
  return { ...named(row, figures, ['mails/s', 'first webhook, ms', 'lost', 'reported twice']), ...cpu };
}

async function reads({ reads: { listWithBodies, list, oneEmail } }: Prepared, meter: Meter): Promise<Figures> {
  const rows: [string, Request[], number[]][] = [
    ['list of 50 with bodies', listWithBodies, [1, 8]],
    ['list of 50 without bodies', list, [1, 8]],
    ['one email', oneEmail, [1, 8]],
  ];
  const figures: Figures = {};
  for (const [name, requests, numbers] of rows) {
    for (const callers of numbers) {
      const row = `${name}, ${callers} at a time`;
      await countWithin(requests, callers, WARM_UP_MS);
      const [count, cpu] = await meter(row, async () => {
        const count = (await countWithin(requests, callers, MEASURED_MS)) / requests.length;
        return { count, result: count };
      });
      Object.assign(figures, { [`${row}: /s`]: (count / MEASURED_MS) * 1000, ...cpu });
    }
  }
  return figures;
}

async function searches({ side, filled: { account, series, count } }: Prepared, meter: Meter): Promise<Figures> {
  const texts: [Search, string, (index: number) => string][] = [
    ['word', 'a word', (index) => ownWord(series, (index * 7919) % count)],
    ['subject', 'part of a subject', (index) => String(1_000 + index)],
    ['sender', 'a sender', (index) => `person${index}@elsewhere.test`],
  ];
  const figures: Figures = {};
  for (const [search, name, textOf] of texts) {
    const row = `search in ${count}, ${name}`;
    const [times, cpu] = await meter(row, async () => {
      const calls = { ...SEARCHES, warmUp: side.warmUp };
      const call = (index: number) => side.search(account, search, textOf(Math.abs(index)));
      const times = await timesOf(calls, call, (body) => side.hits(body) > 0);
      return { count: times.length + side.warmUp, result: times };
    });
    Object.assign(figures, { [`${row}: p50, ms`]: percentile(times, 0.5), ...cpu });
  }
  return figures;
}

async function sends({ side, sender, reader, inbox }: Prepared, meter: Meter): Promise<Figures> {
  const row = `${SENDS} sends, 8 at a time`;
  const series = `sends${randomBytes(4).toString('hex')}`;
  const [figures, cpu] = await meter(row, async () => {
    const send = (number: number) => side.send(sender, reader, series, number);
    const result = await sendsOf(send, { series, sender: sender.user, sent: 'Sent', inbox });
    return { count: SENDS, result };
  });
  const shown = ['accepted/s', 'delivered/s', 'lost', 'arrived twice', 'Sent copies missing or double'];
  return { ...named(row, figures, shown), ...cpu };
}

const named = (row: string, figures: Figures, names: string[]): Figures =>
  Object.fromEntries(names.map((name) => [`${row}: ${name}`, figures[name] ?? Number.NaN]));
