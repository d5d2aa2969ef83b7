import { randomBytes } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import type pg from 'pg';
import type { Account } from '../src/contract/account.ts';
import { waitFor } from '../test/helpers/assert/wait.ts';
import { startBareServer } from './ground/bare-server.ts';
import { ratesOf, type Request, timesOf } from './ground/callers.ts';
import { type Bounds, type Figures, percentile } from './figures.ts';
import { benchMail, ownWord } from './ground/mails.ts';
import { type Bench, databaseClient, type MailboxOptions } from './ground/setup.ts';

export interface Filled {
  account: Account;
  series: string;
  count: number;
}

/** Fills INBOX with the mails of a series, one a second until an hour ago. */
export const filling =
  (series: string, count: number): NonNullable<MailboxOptions['fill']> =>
  async (imap, { user }) => {
    const recent = (index: number) => new Date(Date.now() - 3_600_000 - index * 1_000);
    const mails = function* () {
      for (let index = 0; index < count; index++) yield benchMail(series, index, { to: user, date: recent(index) });
    };
    await imap.fill('INBOX', mails());
  };

/** A mailbox whose `count` mails have been imported. */
export async function filled(
  bench: Bench,
  count: number,
  series = `read${randomBytes(4).toString('hex')}`,
): Promise<Filled> {
  const { account } = await bench.mailbox({
    fill: filling(series, count),
    connect: { config: { initial_sync_enable: true } },
  });
  await waitFor(
    async () => (await bench.api.get<Account>(`/accounts/${account.id}`)).initial_sync?.status === 'completed',
    { timeoutMs: 900_000, everyMs: 1_000, what: `the import of ${count} mails` },
  );
  return { account, series, count };
}

const time = (
  { api }: Bench,
  requests: number,
  path: (index: number) => string,
  isExpected: (body: Body) => boolean,
): Promise<number[]> => timesOf({ requests }, (index) => api.request('GET', path(index)), isExpected);

interface Body {
  data?: unknown[];
}

/** Pages of 50 of an account with 5,000 emails. */
export const list = {
  title: 'list of 50 emails of 5,000, one caller',
  bounds: { 'p50, ms': { most: 5 }, 'p99, ms': { most: 25 } } satisfies Bounds,
  prepare: (bench: Bench) => filled(bench, 5_000),
  round: async (bench: Bench, { account }: Filled): Promise<Figures> => {
    const full = (body: Body) => body.data?.length === 50;
    const first = await time(bench, 300, () => `/${account.id}/emails?limit=50`, full);
    const meta = await time(bench, 300, () => `/${account.id}/emails?limit=50&meta_only=true`, full);
    const folders = await bench.api.folder(account.id, 'INBOX');
    const folder = await time(bench, 300, () => `/${account.id}/folders/${folders.id}/emails?limit=50`, full);
    return {
      'p50, ms': percentile(first, 0.5),
      'p99, ms': percentile(first, 0.99),
      'meta_only p50, ms': percentile(meta, 0.5),
      'meta_only p99, ms': percentile(meta, 0.99),
      'folder p50, ms': percentile(folder, 0.5),
      'folder p99, ms': percentile(folder, 0.99),
    };
  },
};

/** Requests a second of an account with 5,000 emails, and of a bare Fastify route that sends the same bytes. */
export const reads = {
  title: 'reads of an account with 5,000 emails, a second',
  bounds: {
    'list with bodies, 1 at a time, /s': { least: 200 },
    'list with bodies, 8 at a time, /s': { least: 350 },
    'list without, 1 at a time, /s': { least: 800 },
    'list without, 8 at a time, /s': { least: 2_000 },
    'one email, 1 at a time, /s': { least: 1_000 },
    'one email, 8 at a time, /s': { least: 3_500 },
  } satisfies Bounds,
  limits: Object.fromEntries(
    ['list with bodies', 'list without', 'one email']
      .flatMap((name) => [1, 8].map((callers) => `${name}, ${callers} at a time, /s`))
      .map((name) => [name, `a bare route: ${name}`]),
  ),
  prepare: async (bench: Bench): Promise<Route[]> => {
    const { account } = await filled(bench, 5_000);
    const path = `/${account.id}/emails`;
    const newest = await bench.api.get<{ data: { id: string }[] }>(`${path}?limit=1&meta_only=true`);
    const routes = [
      { name: 'list with bodies', path: `${path}?limit=50` },
      { name: 'list without', path: `${path}?limit=50&meta_only=true` },
      { name: 'one email', path: `${path}/${newest.data[0]?.id}` },
    ];
    const responses: Record<string, Buffer> = {};
    for (const [index, route] of routes.entries()) {
      const response = await bench.api.request('GET', route.path);
      responses[index] = Buffer.from(await response.arrayBuffer());
    }
    const bare = await startBareServer(bench, responses);
    return routes.map(({ name, path }, index) => ({
      name,
      ours: { url: `${bench.api.base}/api/v1${path}`, headers: { 'X-API-KEY': bench.api.key } },
      bare: { url: `${bare}/${index}` },
    }));
  },
  round: async (_bench: Bench, routes: Route[]): Promise<Figures> => {
    const figures: Figures = {};
    for (const { name, ours, bare } of routes) Object.assign(figures, await ratesOf(name, ours, bare));
    return figures;
  },
};

interface Route {
  name: string;
  ours: Request;
  bare: Request;
}

/** The minimal statement of a search: ids of emails that contain a word, newest first. */
async function bareSearch(client: pg.Client, words: string[]): Promise<number[]> {
  const times: number[] = [];
  for (const word of words) {
    const began = performance.now();
    await client.query({
      name: 'bench-search',
      text: 'select email_id from email_search where text like $1 order by date desc, email_id desc limit 51',
      values: [`%${word}%`],
    });
    times.push(performance.now() - began);
  }
  return times.slice(20);
}

/** Words of the body among 20,000 emails: one in a single mail, one in several. */
export const search = {
  title: 'search by a word of the body in 20,000 emails, one caller',
  bounds: {
    'one hit p50, ms': { most: 6 },
    'subject p50, ms': { most: 6 },
    'sender p50, ms': { most: 6 },
  } satisfies Bounds,
  limits: { 'one hit p50, ms': 'bare SQL, one hit p50, ms' },
  prepare: async (bench: Bench) => {
    const client = await databaseClient(bench);
    return { ...(await filled(bench, 20_000)), client };
  },
  round: async (bench: Bench, { account, series, count, client }: Filled & { client: pg.Client }): Promise<Figures> => {
    const one = await time(
      bench,
      200,
      (index) => `/${account.id}/emails?q=${ownWord(series, (Math.abs(index) * 7919) % count)}&limit=50`,
      (body) => body.data?.length === 1,
    );
    const common = await time(
      bench,
      50,
      (index) => `/${account.id}/emails?q=${Math.abs(index) % 10}qq&limit=50&meta_only=true`,
      (body) => body.data?.length === 50,
    );
    const none = await time(
      bench,
      100,
      (index) => `/${account.id}/emails?q=xylophon${index}`,
      (body) => body.data?.length === 0,
    );
    const hits = (body: Body) => (body.data?.length ?? 0) > 0;
    const subject = await time(bench, 100, (index) => `/${account.id}/emails?subject=${1_000 + Math.abs(index)}`, hits);
    const sender = await time(
      bench,
      100,
      (index) => `/${account.id}/emails?from=person${Math.abs(index)}@elsewhere.test&limit=50&meta_only=true`,
      hits,
    );
    const words = Array.from({ length: 220 }, (_, index) => ownWord(series, (index * 7919) % count));
    return {
      'one hit p50, ms': percentile(one, 0.5),
      '  bare SQL, one hit p50, ms': percentile(await bareSearch(client, words), 0.5),
      'subject p50, ms': percentile(subject, 0.5),
      'sender p50, ms': percentile(sender, 0.5),
      'one hit p99, ms': percentile(one, 0.99),
      'a tenth of all p50, ms': percentile(common, 0.5),
      'a tenth of all p99, ms': percentile(common, 0.99),
      'no hit p50, ms': percentile(none, 0.5),
      'no hit p99, ms': percentile(none, 0.99),
    };
  },
};
