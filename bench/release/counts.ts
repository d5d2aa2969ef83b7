import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type pg from 'pg';
import type { Email } from '../../src/contract/email.ts';
import { addUser, type MailUser } from '../../test/helpers/product/mail-user.ts';
import { type Page } from '../../test/helpers/product/api.ts';
import { waitFor } from '../../test/helpers/assert/wait.ts';
import type { Figures } from '../figures.ts';
import { benchMail } from '../ground/mails.ts';
import { type Bench, type BenchMailbox, databaseClient, watchedMailboxes } from '../ground/setup.ts';
import { send } from '../sends.ts';

const TIMES = 40;
/** What an operation leaves to do ends within it. */
const REST_MS = 2_000;
const BACKGROUND_MS = 20_000;

interface Ground {
  box: BenchMailbox;
  reader: MailUser;
  client: pg.Client;
}

type Operation = (bench: Bench, ground: Ground, series: string, number: number) => Promise<unknown>;

/** Each is made alone: how many share a batch depends on how fast the machine is. */
const OPERATIONS: Record<string, Operation> = {
  'a new mail, with its webhook': async (bench, { box }, series, number) => {
    await box.imap.append('INBOX', [benchMail(series, number, { to: box.user.user })]);
    await bench.allReported(series, number + 1, 60_000);
  },
  'a send, with the webhook of its copy': async (bench, { box, reader }, series, number) => {
    const { messageId = '' } = await send(bench, box, reader, series, number);
    await waitFor(() => bench.reportedAt(messageId), { timeoutMs: 60_000, what: 'the copy of a send' });
  },
  'a list and a change of read': async ({ api }, { box }, _series, number) => {
    const path = `/${box.account.id}/emails`;
    const { data } = await api.get<Page<Email>>(`${path}?limit=50&meta_only=true`);
    await api.post(`${path}/${data[0]?.id}/${number % 2 === 0 ? 'read' : 'unread'}`);
  },
};

/** What the main operations ask of Postgres: .ci/nightly judges it, since it does not depend on the machine. */
export const counts = {
  title: 'statements of one operation, those of the background taken off',
  prepare: async (bench: Bench): Promise<Ground> => {
    const before = await databaseClient(bench);
    await before.query("alter system set shared_preload_libraries = 'pg_stat_statements'");
    await bench.restart(async () => {});
    const client = await databaseClient(bench);
    await client.query('create extension pg_stat_statements');
    const [box] = (await watchedMailboxes(bench, 1)) as [BenchMailbox];
    const ground = { box, reader: await addUser(), client };
    // what is looked up once, such as the folder of sent mail
    for (const name of Object.keys(OPERATIONS)) await repeat(bench, ground, name);
    return ground;
  },
  round: async (bench: Bench, ground: Ground): Promise<Figures> => {
    const idle = await countOf(ground, () => sleep(BACKGROUND_MS));
    const figures: Figures = {};
    for (const name of Object.keys(OPERATIONS)) {
      const { ms, statements } = await countOf(ground, () => repeat(bench, ground, name));
      figures[name] = (statements - (idle.statements * ms) / idle.ms) / TIMES;
    }
    return figures;
  },
};

async function repeat(bench: Bench, ground: Ground, name: string): Promise<void> {
  const series = `counts${randomBytes(4).toString('hex')}`;
  for (let number = 0; number < TIMES; number++) await OPERATIONS[name]?.(bench, ground, series, number);
  await sleep(REST_MS);
}

/** The statements that Postgres gets while `work` runs, and how long that takes. */
async function countOf({ client }: Ground, work: () => Promise<void>): Promise<{ ms: number; statements: number }> {
  await client.query('select pg_stat_statements_reset()');
  const began = performance.now();
  await work();
  const ms = performance.now() - began;
  const { rows } = await client.query<{ statements: number }>(`
    select sum(calls)::float8 as statements from pg_stat_statements where query not like '%pg_stat_statements%'`);
  return { ms, statements: rows[0]?.statements ?? 0 };
}
