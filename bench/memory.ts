import { fork } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { addUser, type MailUser } from '../test/helpers/product/mail-user.ts';
import { openMailbox } from '../test/helpers/product/mailbox.ts';
import type { Bounds, Figures } from './figures.ts';
import { byPart, processTree } from './ground/process-tree.ts';
import { type Bench, watchedMailboxes } from './ground/setup.ts';

/** `BENCH_ACCOUNTS=1,50,200,1000` takes long: five to ten mailboxes are connected a second. */
const ACCOUNTS = (process.env.BENCH_ACCOUNTS ?? '1,50,200').split(',').map(Number);
const SHORT_ACCOUNTS = [1, 10];
/** The memory that connecting needed is released by then. */
const REST_MS = 35_000;
/** of the product without a mailbox, and for each, MiB */
const [MOST, MOST_EACH] = [420, 0.35];
/** CPU of each mailbox at rest, % of a core */
const MOST_CPU = 0.05;
const ENOUGH = 50;

const wanted = process.env.BENCH_ACCOUNTS === undefined && process.argv.includes('--short') ? SHORT_ACCOUNTS : ACCOUNTS;
const MEBIBYTE = 1024 * 1024;

/** Memory and CPU of every process with idle accounts; shared pages counted once (PSS). */
export const memory = {
  title: `memory with ${wanted.join(', ')} accounts connected and idle, MiB`,
  bounds: Object.fromEntries(
    wanted.flatMap((count) => [
      [`${count} accounts, all processes`, { most: MOST + MOST_EACH * count }],
      // with few accounts, the variation of the product's own CPU dominates
      ...(count < ENOUGH ? [] : [[`CPU of each of ${count}, % of a core`, { most: MOST_CPU }]]),
    ]),
  ) satisfies Bounds,
  limits: { 'each account': 'a bare connection' },
  rounds: 1,
  prepare: async () => undefined,
  round: async (bench: Bench): Promise<Figures> => {
    const figures: Figures = {};
    const totals: number[] = [];
    let accounts = 0;
    let cpuOfNone = 0;
    for (const count of [0, ...wanted]) {
      await connectIdle(bench, count - accounts);
      accounts = count;
      await sleep(REST_MS);
      const before = byPart(processTree(bench.pid));
      await sleep(REST_MS);
      const processes = processTree(bench.pid);
      const cpuOf = new Map(
        [...byPart(processes)].map(([name, { cpuMs }]) => [name, cpuMs - (before.get(name)?.cpuMs ?? 0)]),
      );
      const cpu = [...cpuOf.values()].reduce((sum, ms) => sum + ms, 0);
      const total = processes.reduce((sum, { pssBytes }) => sum + pssBytes, 0) / MEBIBYTE;
      totals.push(total);
      figures[`${count} accounts, all processes`] = total;
      for (const [name, { pssBytes }] of byPart(processes)) figures[`  ${name} (${count})`] = pssBytes / MEBIBYTE;
      figures[`CPU of ${count} accounts, % of a core`] = (cpu / REST_MS) * 100;
      for (const [name, ms] of cpuOf) figures[`  CPU of ${name} (${count}), % of a core`] = (ms / REST_MS) * 100;
      if (count === 0) cpuOfNone = cpu;
      else figures[`CPU of each of ${count}, % of a core`] = ((cpu - cpuOfNone) / REST_MS / count) * 100;
    }
    const [, first = 0] = totals;
    figures['each account'] = ((totals.at(-1) ?? 0) - first) / Math.max(1, accounts - (wanted[0] ?? 0));
    figures['  a bare connection'] = await bareConnection();
    return figures;
  },
};

/** Callers who connect mailboxes, and how many each connects before its own connections to them are closed. */
const CALLERS = 4;
const AT_ONCE = 50;

async function connectIdle(bench: Bench, count: number): Promise<void> {
  let left = count;
  const call = async () => {
    while (left > 0) {
      const some = Math.min(AT_ONCE, left);
      left -= some;
      for (const { imap } of await watchedMailboxes(bench, some)) imap.close();
    }
  };
  await Promise.all(Array.from({ length: CALLERS }, call));
}

const BARE = 50;

/** The memory of an idle imapflow connection alone, in a separate process, MiB. */
async function bareConnection(): Promise<number> {
  const users = await Promise.all(Array.from({ length: BARE }, () => addUser()));
  const child = fork(fileURLToPath(import.meta.url), { execArgv: ['--import', 'tsx'] });
  const ended = once(child, 'exit');
  const connect = async (some: MailUser[]): Promise<number> => {
    const connected = once(child, 'message');
    child.send(some);
    await connected;
    await sleep(REST_MS / 4);
    return processTree(child.pid ?? 0).reduce((sum, { pssBytes }) => sum + pssBytes, 0);
  };
  try {
    // the first connection loads shared modules
    const one = await connect(users.slice(0, 1));
    return ((await connect(users.slice(1))) - one) / (BARE - 1) / MEBIBYTE;
  } finally {
    child.kill('SIGTERM');
    await ended;
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  process.on('message', (users: MailUser[]) => {
    void (async () => {
      for (const user of users) await (await openMailbox(user)).client.mailboxOpen('INBOX');
      process.send?.('connected');
    })();
  });
}
