import { randomBytes } from 'node:crypto';
import type pg from 'pg';
import type { Email } from '../src/contract/email.ts';
import { newId } from '../src/new-id.ts';
import { fillLog } from './webhooks/log.ts';
import { type Bounds, type Figures, median } from './figures.ts';
import { benchMail, benchMessageId } from './ground/mails.ts';
import { type Bench, type BenchMailbox, databaseClient, watchedMailboxes } from './ground/setup.ts';

/** Emails of one account, records of the log and messages of one folder; `BENCH_SIZES=10000,100000,1000000` takes long. */
const SIZES = (process.env.BENCH_SIZES ?? '10000,100000').split(',').map(Number);
const REQUESTS = 100;
const BURST = 300;
const FLAT = 1.2;

interface Ground {
  client: pg.Client;
  /** an account whose mail grows; it has no mailbox that sync could compare it with */
  grown: string;
  folder: string;
  template: string;
  /** another account, watched */
  watched: BenchMailbox;
  emails: number;
  records: number;
}

const NAMES = ['list', 'end of the list', 'search', 'search without a hit', 'log', 'ingest', 'large folder'];

/** Repeats operations with ten times as much in the store each time. */
export const growth = {
  title: `p50 in ms with ${SIZES.join(', ')} emails, records of the log and messages of a folder`,
  bounds: Object.fromEntries(
    SIZES.slice(1).flatMap((size) => NAMES.map((name) => [`${name}, ${size} / ${SIZES[0]}`, { most: FLAT }])),
  ) satisfies Bounds,
  rounds: 1,
  prepare: async (bench: Bench): Promise<Ground> => {
    const client = await databaseClient(bench);
    const [watched] = (await watchedMailboxes(bench, 1)) as [BenchMailbox];
    const { id } = watched.account;
    const { data } = await bench.api.get<{ data: Email[] }>(`/${id}/emails?limit=1&meta_only=true`);
    const [grown, folder] = [newId('account'), newId('folder')];
    const copy = (table: string, where: string, changed: object) =>
      client.query(
        `insert into ${table} select (jsonb_populate_record(t, $2::jsonb)).* from ${table} t where ${where}`,
        [id, JSON.stringify(changed)],
      );
    await copy('accounts', 'id = $1', { id: grown, mailbox_key: grown, status: 'disconnected' });
    await copy('folders', `account_id = $1 and role = 'INBOX'`, { id: folder, account_id: grown });
    return { client, grown, folder, template: data[0]?.id ?? '', watched, emails: 0, records: 0 };
  },
  round: async (bench: Bench, ground: Ground): Promise<Figures> => {
    const figures: Figures = {};
    for (const size of SIZES) {
      await grow(ground, size);
      for (const [name, ms] of Object.entries(await times(bench, ground, size))) figures[`${name}, ${size}`] = ms;
    }
    for (const size of SIZES.slice(1)) {
      for (const name of NAMES) {
        figures[`${name}, ${size} / ${SIZES[0]}`] =
          (figures[`${name}, ${size}`] ?? Number.NaN) / (figures[`${name}, ${SIZES[0]}`] ?? Number.NaN);
      }
    }
    return figures;
  },
};

/** Adds copies of an ingested email, each a minute older and with a unique word, and records of the log. */
async function grow(ground: Ground, size: number): Promise<void> {
  const { client, template, grown, folder } = ground;
  const STEP = 50_000;
  for (let from = ground.emails; from < size; from += STEP) {
    const numbers = `generate_series(${from}, ${Math.min(size, from + STEP) - 1}) n`;
    const id = `'email_01' || lpad(n::text, 24, '0')`;
    const copies = (table: string, key: string, changed: string) =>
      client.query(
        `insert into ${table}
         select (jsonb_populate_record(t, jsonb_build_object('${key}', ${id}, 'account_id', $2::text${changed}))).*
         from ${table} t, ${numbers} where t.${key} = $1`,
        [template, grown],
      );
    const date = `'date', t.date - n * interval '1 minute'`;
    await copies('emails', 'id', `, ${date}, 'message_id', '<' || n || '@copy>'`);
    await copies('email_contents', 'email_id', '');
    await copies('email_search', 'email_id', `, ${date}, 'text', t.text || 'zz' || n || 'qq '`);
    await copies('locations', 'email_id', `, ${date}, 'uid', 1000 + n, 'folder_id', '${folder}'`);
  }
  ground.emails = size;
  await fillLog(client, size, ground.records);
  ground.records = size;
  // as STATUS counts them: a search goes by the size of the list
  await client.query('update folders set total_count = $1, known_count = $1 where id = $2', [size, folder]);
  await client.query('vacuum analyze');
  // writing out these rows must not be measured
  await client.query('checkpoint');
}

async function times(bench: Bench, ground: Ground, size: number): Promise<Figures> {
  const { grown, watched } = ground;
  const emails = `/${grown}/emails`;
  const end = new Date(Date.now() - (size - 60) * 60_000).toISOString();
  const random = () => Math.floor(Math.random() * (size - 1)) + 1;
  const figures: Figures = {
    list: await p50(bench, () => `${emails}?limit=50`),
    'end of the list': await p50(bench, () => `${emails}?limit=50&before=${end}`),
    search: await p50(bench, () => `${emails}?q=zz${random()}qq`),
    'search without a hit': await p50(bench, () => `${emails}?q=xylophon${random()}`),
    log: await p50(bench, () => `/webhooks/conversations?event_type=email.new`),
    ingest: await ingest(bench, watched, BURST),
  };
  // last: a folder of that size is read when it is connected, beside all later work
  const large = (await watchedMailboxes(bench, 1, {
    fill: (imap, { user }) => imap.fill('INBOX', smallMails(user, size)),
  })) as [BenchMailbox];
  return { ...figures, 'large folder': await oneByOne(bench, large[0]) };
}

function* smallMails(user: string, count: number): Generator<Buffer> {
  for (let number = 0; number < count; number++) yield benchMail('before', number, { to: user, bytes: 600 });
}

async function p50(bench: Bench, path: () => string): Promise<number> {
  const times: number[] = [];
  for (let index = -20; index < REQUESTS; index++) {
    const began = performance.now();
    const response = await bench.api.request('GET', path());
    await response.text();
    if (!response.ok) throw new Error(`${path()}: ${response.status}`);
    if (index >= 0) times.push(performance.now() - began);
  }
  return median(times);
}

/** ms a mail, for `count` mails together, until the last is reported. */
async function ingest(bench: Bench, { user, imap }: BenchMailbox, count: number): Promise<number> {
  const series = `grow${randomBytes(4).toString('hex')}`;
  const mails = Array.from({ length: count }, (_, number) => benchMail(series, number, { to: user.user }));
  const began = Date.now();
  await imap.append('INBOX', mails);
  await bench.allReported(series, count, 120_000);
  return (Date.now() - began) / count;
}

/** ms from APPEND to webhook of mails that arrive in sequence. */
async function oneByOne(bench: Bench, { user, imap }: BenchMailbox): Promise<number> {
  const series = `one${randomBytes(4).toString('hex')}`;
  const times: number[] = [];
  for (let number = 0; number < 15; number++) {
    const sentAt = Date.now();
    await imap.append('INBOX', [benchMail(series, number, { to: user.user })]);
    await bench.allReported(series, number + 1, 60_000);
    times.push((bench.reportedAt(benchMessageId(series, number)) ?? Number.NaN) - sentAt);
  }
  return median(times);
}
