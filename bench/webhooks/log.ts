import pg from 'pg';
import { type Bounds, type Figures, percentile } from '../figures.ts';
import { type Bench, databaseUrl } from '../ground/setup.ts';

/** Records of the log; one event each. */
const RECORDS = 1_000_000;
const ENDPOINTS = 40;
const ACCOUNTS = 250;
const DAYS = 29;
const REQUESTS = 100;

/** An id in the product's format, made from a number. */
const idOf = (prefix: string, n: number) => `${prefix}_01${String(n).padStart(24, '0')}`;
const ID = (prefix: string, n: string) => `'${prefix}_01' || lpad((${n})::text, 24, '0')`;
/** Event types in the proportions of a mailbox in use: most are updates and new emails. */
const TYPE = `(array['email.update','email.update','email.update','email.update','email.new','email.new','email.new',
  'email.delete','tracking.open','account.status.errored'])[1 + (hash % 10)]`;
const STATUS = `case when hash / 10 % 1000 < 960 then 'delivered' when hash / 10 % 1000 < 980 then 'failed'
  when hash / 10 % 1000 < 995 then 'skipped' else 'pending' end`;

/** Fills the log over the last days with the records from `first` on; pending deliveries have their next attempt tomorrow. */
export async function fillLog(client: pg.Client | pg.Pool, records = RECORDS, first = 0): Promise<void> {
  const step = 100_000;
  for (let from = first; from < records; from += step) {
    await client.query(`
      create temporary table filled on commit preserve rows as
        select n, abs(hashint8(n)) as hash, abs(hashint8(n + 1000000007)) as other,
          now() - interval '${DAYS} days' * (1 - n::float8 / ${records}) as at
        from generate_series(${from}, ${Math.min(records, from + step) - 1}) n`);
    await client.query(`
      insert into events (id, account_id, type, sequence, object_id, data, created_at)
      select ${ID('evt', 'n')}, ${ID('acc', `other % ${ACCOUNTS}`)}, ${TYPE}, n + 1, ${ID('email', 'n / 4')},
        '{"email":{"subject":"' || repeat('x', 400) || '"}}', at
      from filled`);
    await client.query(`
      insert into deliveries (id, event_id, endpoint_id, endpoint_url, account_id, event_type, object_id, sequence, status,
        attempts_count, http_status, created_at, last_attempt_at, workflow_id)
      select ${ID('whc', 'n')}, ${ID('evt', 'n')}, ${ID('we', `other / 1000 % ${ENDPOINTS}`)}, 'https://example.com/hook',
        ${ID('acc', `other % ${ACCOUNTS}`)}, ${TYPE}, ${ID('email', 'n / 4')}, n + 1, ${STATUS}, 1, 200, at, at,
        case when ${STATUS} <> 'pending' then 'deliver/' || n end
      from filled`);
    await client.query(`
      insert into pending_deliveries (delivery_id, endpoint_id, object_id, sequence, due_at, waits_for)
      select d.id, d.endpoint_id, d.object_id, d.sequence, now() + interval '1 day', 'retry' from filled
      join deliveries d on d.id = ${ID('whc', 'n')} where d.status = 'pending'`);
    await client.query('drop table filled');
  }
  await client.query('vacuum analyze deliveries, events');
}

const pick = (count: number) => Math.floor(Math.random() * count);
const endpoint = () => `endpoint_id=${idOf('we', pick(ENDPOINTS))}`;
const account = () => `account_id=${idOf('acc', pick(ACCOUNTS))}`;
const type = () => `event_type=${['email.update', 'email.new', 'email.delete', 'tracking.open'][pick(4)]}`;
const status = () => `status=${['delivered', 'failed', 'skipped', 'pending'][pick(4)]}`;
const time = () => {
  const from = Date.now() - (1 + pick(DAYS - 1)) * 86_400_000;
  return `since=${new Date(from).toISOString()}&until=${new Date(from + 3_600_000).toISOString()}`;
};

/** Queries by name, with different values each time. */
export const LOG_QUERIES: Record<string, () => string> = {
  'no filter': () => '',
  endpoint,
  account,
  type,
  'a type that never happened': () => 'event_type=account.remove',
  status,
  'an hour': time,
  event: () => `event_id=${idOf('evt', pick(RECORDS))}`,
  email: () => `email_id=${idOf('email', pick(RECORDS / 4))}`,
  'endpoint, status': () => `${endpoint()}&${status()}`,
  'endpoint, type': () => `${endpoint()}&${type()}`,
  'endpoint, account': () => `${endpoint()}&${account()}`,
  'account, type': () => `${account()}&${type()}`,
  'account, status': () => `${account()}&${status()}`,
  'type, status': () => `${type()}&${status()}`,
  'endpoint, no such type': () => `${endpoint()}&event_type=account.remove`,
  'account, no such endpoint': () => `${account()}&endpoint_id=${idOf('we', ENDPOINTS)}`,
  'endpoint, an hour': () => `${endpoint()}&${time()}`,
  'all filters': () => `${endpoint()}&${account()}&${type()}&${status()}&${time()}`,
  'endpoint, status, type': () => `${endpoint()}&${status()}&${type()}`,
  'endpoint, offset 10,000': () => `${endpoint()}&offset=10000`,
  'offset 100,000': () => 'offset=100000',
  'offset 900,000': () => 'offset=900000',
};

async function connect(bench: Bench): Promise<pg.Client> {
  const client = new pg.Client(await databaseUrl(bench));
  await client.connect();
  return client;
}

async function p95(bench: Bench, path: () => string): Promise<number> {
  const times: number[] = [];
  for (let index = -10; index < REQUESTS; index++) {
    const began = performance.now();
    const response = await bench.api.request('GET', path());
    await response.text();
    if (index >= 0) times.push(performance.now() - began);
    if (!response.ok) throw new Error(`${path()}: ${response.status}`);
  }
  return percentile(times, 0.95);
}

/** Pages of 20 of a log with a million records, and of the events behind it. */
export const deliveryLog = {
  title: 'p95 in ms of a page of the delivery log with 1,000,000 records, one caller',
  bounds: Object.fromEntries(Object.keys(LOG_QUERIES).map((name) => [name, { most: 50 }])) satisfies Bounds,
  prepare: async (bench: Bench) => {
    const client = await connect(bench);
    await fillLog(client).finally(() => client.end());
  },
  round: async (bench: Bench): Promise<Figures> => {
    const figures: Figures = {};
    for (const [name, query] of Object.entries(LOG_QUERIES)) {
      figures[name] = await p95(bench, () => `/webhooks/conversations?${query()}`);
    }
    figures['events after one'] = await p95(bench, () => `/webhooks/events?after=${idOf('evt', pick(RECORDS))}`);
    figures['events of an account'] = await p95(bench, () => `/webhooks/events?${account()}`);
    figures['events of a rare type'] = await p95(bench, () => '/webhooks/events?types=account.status.errored');
    return figures;
  },
};
