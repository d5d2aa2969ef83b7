import { existsSync, mkdirSync, readdirSync, rmdirSync, writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import type pg from 'pg';
import { startReceiver } from '../test/helpers/fakes/receiver.ts';
import { waitFor } from '../test/helpers/assert/wait.ts';
import { type Figures, median, percentile } from './figures.ts';
import { benchMail, benchMessageId } from './ground/mails.ts';
import { byPart, processTree } from './ground/process-tree.ts';
import { type Bench, type BenchMailbox, databaseClient, watchedMailboxes } from './ground/setup.ts';

const MAILBOXES = Number(process.env.SOAK_MAILBOXES ?? 200);
const MINUTES = Number(process.env.SOAK_MINUTES ?? 60);
/** of the whole product; 0: all. Less needs root and cgroup v1, as containers are limited. */
const CORES = Number(process.env.SOAK_CORES ?? 0);
/** when the worker is killed, minutes after the begin */
const KILLS = (process.env.SOAK_KILLS ?? '10,35').split(',').map(Number);
/** multiplies the traffic */
const RATE = Number(process.env.SOAK_RATE ?? 1);
/** in each minute, over all mailboxes */
const RATES = { mails: 120 * RATE, sends: 6 * RATE, marks: 8 * RATE, lists: 140 * RATE };
/** What grows by the first use of each part is no slope. */
const WARM_UP = 0.3;

interface Ground {
  boxes: BenchMailbox[];
  client: pg.Client;
}

/** One minute, or part of one. */
interface Sample {
  minute: number;
  emails: number;
  ready: string;
  values: Record<string, number>;
}

/** Mail, sends, marks and lists of many mailboxes for a long time, with kills of the worker; endpoints: good, failing, dead. */
export const soak = {
  title: `${MAILBOXES} mailboxes for ${MINUTES} minutes${CORES > 0 ? ` with ${CORES} of a core` : ''}`,
  rounds: 1,
  prepare: async (bench: Bench): Promise<Ground> => {
    const boxes = await watchedMailboxes(bench, MAILBOXES);
    const failing = await startReceiver();
    failing.answer = () => (Math.random() < 0.05 ? 500 : 200);
    bench.alsoStop.push(() => failing.close());
    for (const url of [failing.url, 'http://127.0.0.1:9/dead']) {
      await bench.api.post('/webhooks/endpoints', { url, trigger_events: ['email.new', 'email.update'] });
    }
    const client = await databaseClient(bench);
    if (CORES > 0) bench.alsoStop.push(limitTo(CORES, bench.pid));
    return { boxes, client };
  },
  round: async (bench: Bench, { boxes, client }: Ground): Promise<Figures> => {
    const began = Date.now();
    const until = began + MINUTES * 60_000;
    const writes: { status: number; ms: number }[] = [];
    const call = async (method: string, path: string, body?: object) => {
      const at = performance.now();
      const response = await bench.api.request(method, path, body).catch(() => undefined);
      await response?.arrayBuffer().catch(() => undefined);
      return { status: response?.status ?? 0, ms: performance.now() - at };
    };
    const pick = () => boxes[Math.floor(Math.random() * boxes.length)] as BenchMailbox;
    let appended = 0;
    const appendedAt = new Map<string, number>();
    const newest = new Map<string, string>();
    const steps: [number, () => Promise<void>][] = [
      [
        RATES.mails,
        async () => {
          const [number, { imap, user }] = [appended++, pick()];
          appendedAt.set(benchMessageId('soak', number), Date.now());
          await imap.append('INBOX', [benchMail('soak', number, { to: user.user })]);
        },
      ],
      [
        RATES.sends,
        async () => {
          const [from, to] = [pick(), pick()];
          const mail = { to: [{ email: to.user.user }], subject: 'a soak', plain_text: 'a text' };
          writes.push(await call('POST', `/${from.account.id}/emails/send`, mail));
        },
      ],
      [
        RATES.marks,
        async () => {
          const { account } = pick();
          const id = newest.get(account.id);
          if (id) writes.push(await call('PATCH', `/${account.id}/emails/${id}`, { is_starred: Math.random() < 0.5 }));
        },
      ],
      [
        RATES.lists,
        async () => {
          const { account } = pick();
          const response = await bench.api.request('GET', `/${account.id}/emails?limit=50`).catch(() => undefined);
          const page = (await response?.json().catch(() => undefined)) as { data?: { id: string }[] } | undefined;
          const [first] = page?.data ?? [];
          if (first) newest.set(account.id, first.id);
        },
      ],
    ];
    const traffic = steps.map(async ([perMinute, step]) => {
      const running = new Set<Promise<void>>();
      for (let n = 0; Date.now() < until; n++) {
        await sleep(Math.max(0, began + (n * 60_000) / perMinute - Date.now()));
        const one = step().catch(() => undefined);
        running.add(one);
        void one.finally(() => running.delete(one));
      }
      await Promise.all(running);
    });
    const back: number[] = [];
    const killing = (async () => {
      for (const minute of KILLS.filter((each) => each < MINUTES)) {
        await sleep(Math.max(0, began + minute * 60_000 - Date.now()));
        back.push(await killWorker(bench));
        console.log(`in sync ${(back.at(-1) as number).toFixed(0)} s after kill -9 of the worker`);
      }
    })();
    const samples: Sample[] = [];
    for (let minute = 0; Date.now() < until; minute++) {
      samples.push(await sample(bench, client, minute));
      console.log(lineOf(samples.at(-1) as Sample));
      await sleep(Math.max(0, began + (minute + 1) * 60_000 - Date.now()));
    }
    await Promise.all([...traffic, killing]);
    samples.push(await sample(bench, client, MINUTES));
    await bench.allReported('soak', appended, 900_000);
    const delays = [...appendedAt].map(([id, at]) => (bench.reportedAt(id) ?? Infinity) - at);
    const accepted = writes.filter(({ status }) => status >= 200 && status < 300);
    const times = writes.map(({ ms }) => ms);
    return {
      mails: appended,
      'APPEND to webhook, p50, ms': median(delays),
      'APPEND to webhook, p99, ms': percentile(delays, 0.99),
      'APPEND to webhook, most, ms': Math.max(...delays),
      writes: writes.length,
      'writes accepted': accepted.length,
      'writes, p50, ms': median(times),
      'writes, p99, ms': percentile(times, 0.99),
      'writes, longest, ms': Math.max(...times),
      'in sync after a kill, longest, s': Math.max(...back, 0),
      ...slopes(samples),
    };
  },
};

/** Limits a process tree to a part of a core, as a container is; returns what ends it. */
function limitTo(cores: number, pid: number): () => Promise<void> {
  const group = `/sys/fs/cgroup/cpu/soak-${pid}`;
  mkdirSync(group);
  writeFileSync(`${group}/cpu.cfs_period_us`, '100000');
  writeFileSync(`${group}/cpu.cfs_quota_us`, String(Math.round(cores * 100_000)));
  // it is to have all of its part, whatever else runs
  writeFileSync(`${group}/cpu.shares`, '20000');
  for (const { pid: member } of processTree(pid)) writeFileSync(`${group}/cgroup.procs`, String(member));
  return async () => {
    await waitFor(() => {
      try {
        rmdirSync(group);
      } catch {
        // it has processes
      }
      return !existsSync(group);
    });
  };
}

/** Kills the worker; returns after how many seconds `/ready` says that all mailboxes are in sync again. */
async function killWorker(bench: Bench): Promise<number> {
  const victim = processTree(bench.pid).find(({ name }) => name === 'worker');
  if (!victim) return Number.NaN;
  process.kill(victim.pid, 'SIGKILL');
  const at = Date.now();
  const isInSync = async () => (await ready(bench)) === '200 in sync';
  await waitFor(async () => !(await isInSync()), { timeoutMs: 60_000, what: 'the kill to show' });
  await waitFor(isInSync, { timeoutMs: 1_800_000, everyMs: 500, what: 'all in sync' });
  return (Date.now() - at) / 1000;
}

/** The status of `/ready`, and what it says of the mailboxes. */
function ready({ api }: Bench): Promise<string> {
  return fetch(`${api.base}/ready`).then(
    async (response) => `${response.status} ${((await response.json()) as { mailboxes?: string }).mailboxes ?? ''}`,
    () => 'no answer',
  );
}

async function sample(bench: Bench, client: pg.Client, minute: number): Promise<Sample> {
  const values: Record<string, number> = {};
  const processes = processTree(bench.pid);
  for (const [part, { pssBytes }] of byPart(processes)) values[`${part}, MiB`] = pssBytes / 1024 / 1024;
  for (const { pid, name } of processes)
    values[`${name}, descriptors`] = (values[`${name}, descriptors`] ?? 0) + openFiles(pid);
  const { rows } = await client.query<{ size: string; n: string }>(
    'select pg_database_size(current_database()) as size, (select count(*) from emails) as n',
  );
  values['database, MiB'] = Number(rows[0]?.size) / 1024 / 1024;
  return { minute, emails: Number(rows[0]?.n), ready: await ready(bench), values };
}

function openFiles(pid: number): number {
  try {
    return readdirSync(`/proc/${pid}/fd`).length;
  } catch {
    return 0;
  }
}

function lineOf({ minute, emails, ready: said, values }: Sample): string {
  const shown = Object.entries(values).map(([name, value]) => `${name} ${value.toFixed(0)}`);
  return `minute ${minute}: ${emails} emails, ready: ${said}; ${shown.join('; ')}`;
}

/** How each value grows in an hour after the warm-up (least squares), and the database by the email. */
function slopes(samples: Sample[]): Figures {
  const warm = samples.slice(Math.floor(samples.length * WARM_UP));
  const [first, last] = [warm[0], warm.at(-1)];
  if (!first || !last || warm.length < 3) return {};
  const mean = (numbers: number[]) => numbers.reduce((sum, value) => sum + value, 0) / numbers.length;
  const x = warm.map(({ minute }) => minute / 60);
  const slope = (name: string) => {
    const y = warm.map(({ values }) => values[name] ?? 0);
    const [mx, my] = [mean(x), mean(y)];
    const above = x.reduce((sum, value, index) => sum + (value - mx) * ((y[index] as number) - my), 0);
    return above / x.reduce((sum, value) => sum + (value - mx) ** 2, 0);
  };
  const grown = (last.values['database, MiB'] ?? 0) - (first.values['database, MiB'] ?? 0);
  return {
    ...Object.fromEntries(Object.keys(last.values).map((name) => [`growth an hour: ${name}`, slope(name)])),
    'database, KB an email': (grown * 1024) / Math.max(1, last.emails - first.emails),
  };
}
