import { readdir, readFile, stat } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import pg from 'pg';
import { projectRoot } from '../src/runtime/project-root.ts';
import { type Browsing, browse, startBrowser } from '../test/helpers/product/browser.ts';
import { fillLog } from './webhooks/log.ts';
import { type Bounds, type Figures, percentile } from './figures.ts';
import { type Bench, databaseUrl } from './ground/setup.ts';

const SIZES = { full: { accounts: 10_000, deliveries: 1_000_000 }, short: { accounts: 1_000, deliveries: 100_000 } };
const REQUESTS = 20;

/** Collects the web-vitals of a page, in a script that the browser evaluates, which the policy of the page permits. */
async function watchVitals({ page }: Browsing): Promise<void> {
  const entry = createRequire(import.meta.url).resolve('web-vitals');
  const script = await readFile(join(dirname(entry), 'web-vitals.iife.js'), 'utf8');
  await page.evaluateOnNewDocument(`${script};
    globalThis.vitals = {};
    for (const name of ['onLCP', 'onCLS', 'onFCP', 'onTTFB'])
      webVitals[name](({ value }) => (vitals[name.slice(2)] = value), { reportAllChanges: true });`);
}

interface Vitals {
  LCP: number;
  CLS: number;
  FCP: number;
  TTFB: number;
}

/** Opens the overview, signed in; the first time with an empty browser cache. */
async function visit(bench: Bench, run: (visitor: Browsing) => Promise<void>): Promise<void> {
  const browser = await startBrowser();
  try {
    const visitor = await browse(browser, bench.api.base);
    await watchVitals(visitor);
    await run(visitor);
  } finally {
    await browser.close();
  }
}

async function vitalsOf({ page }: Browsing): Promise<Vitals> {
  await page.waitForSelector('.uplot');
  await page.waitForNetworkIdle({ idleTime: 500, concurrency: 1 });
  return (await page.evaluate('vitals')) as Vitals;
}

async function timesOf(bench: Bench, path: string): Promise<number[]> {
  const times: number[] = [];
  for (let request = 0; request < REQUESTS; request += 1) {
    const began = performance.now();
    await bench.api.get(path);
    times.push(performance.now() - began);
  }
  return times;
}

/** Every page with a text of its loaded content. */
async function pagesOf({ api }: Bench): Promise<[name: string, path: string, content: string][]> {
  const first = async (path: string) => (await api.get<{ data: { id: string }[] }>(path)).data[0]?.id ?? '';
  const [account, delivery, endpoint] = await Promise.all([
    first('/accounts?limit=1'),
    first('/webhooks/conversations?limit=1'),
    first('/webhooks/endpoints?limit=1'),
  ]);
  return [
    ['overview', '/', '.uplot'],
    ['mailboxes', '/mailboxes', 'tbody tr'],
    ['mailboxes, searched', '/mailboxes?search=u999', 'tbody tr'],
    ['mailboxes, last page', '/mailboxes?offset=950', 'tbody tr'],
    ['mailbox', `/mailboxes/${account}`, '.facts'],
    ['links', '/mailboxes/links', '.empty'],
    ['deliveries', '/deliveries', 'tbody tr'],
    ['deliveries, failed', '/deliveries?status=failed', 'tbody tr'],
    ['deliveries, a page later', '/deliveries?offset=5000', 'tbody tr'],
    ['delivery', `/deliveries/${delivery}`, 'pre'],
    ['endpoints', '/endpoints', 'main h1 ~ *, .card'],
    ['endpoint', `/endpoints/${endpoint}`, '.uplot'],
    ['events', '/events', '.live.on'],
    ['keys', '/keys', 'tbody tr'],
    ['audit', '/audit', 'tbody tr'],
    ['settings', '/settings', 'tbody tr'],
    ['reference', '/docs/reference', '.operation'],
  ];
}

/** From the beginning of the navigation until the content of the page is shown, ms; `layout shift` is the largest of all. */
async function timesToContent(bench: Bench, { page, open }: Browsing): Promise<Figures> {
  const figures: Figures = {};
  let shift = 0;
  for (const [name, path, content] of await pagesOf(bench)) {
    await open(path);
    const shown = await page.waitForFunction(
      `document.querySelector(${JSON.stringify(content)}) && performance.now()`,
      { polling: 'raf' },
    );
    figures[`${name}, content, ms`] = Number(await shown.jsonValue());
    shift = Math.max(shift, ((await page.evaluate('vitals')) as Partial<Vitals>).CLS ?? 0);
  }
  return { ...figures, 'layout shift, worst page': shift };
}

/** Sizes of the bundles in KB, compressed with Brotli, by the first part of their names. */
async function bundleSizes(): Promise<Figures> {
  const dir = join(projectRoot(), 'dist', 'web', 'assets');
  const figures: Figures = {};
  for (const name of await readdir(dir)) {
    if (!name.endsWith('.br')) continue;
    const part = `${name.replace(/[-.].*/, '')}.${name.split('.').at(-2) ?? ''}, KB`;
    figures[part] = (figures[part] ?? 0) + (await stat(join(dir, name))).size / 1000;
  }
  return figures;
}

/** The dashboard with 10,000 mailboxes and a delivery log of 1,000,000 records. */
export const dashboard = {
  title: 'Dashboard, 10,000 mailboxes and 1,000,000 deliveries; a tenth of that with --short',
  bounds: {
    'LCP, ms': { most: 1_000 },
    CLS: { most: 0.01 },
    'first page, KB': { most: 150 },
    'layout shift, worst page': { most: 0.1 },
  } satisfies Bounds,
  rounds: 3,
  async prepare(bench: Bench): Promise<null> {
    const pool = new pg.Pool({ connectionString: await databaseUrl(bench), max: 1 });
    const { accounts, deliveries } = bench.short ? SIZES.short : SIZES.full;
    await fillLog(pool, deliveries);
    await pool.query(
      `insert into accounts (id, user_id, name, mailbox_key, imap_host, imap_port, imap_user, imap_encryption, smtp_host,
        smtp_port, smtp_user, smtp_encryption, credentials, created_at, connected_at, status)
      select 'acc_02' || lpad(n::text, 24, '0'), 'u' || n || '@example.com', 'u' || n || '@example.com', 'k' || n,
        'mail.example.com', 993, 'u' || n, 'SSL', 'mail.example.com', 465, 'u' || n, 'SSL', '', now(), now(), 'disconnected'
      from generate_series(1, ${accounts}) n`,
    );
    await pool.query('analyze accounts');
    await pool.end();
    return null;
  },
  async round(bench: Bench): Promise<Figures> {
    const figures: Figures = {};
    await visit(bench, async (visitor) => {
      const client = await visitor.page.createCDPSession();
      await client.send('Network.enable');
      let bytes = 0;
      client.on('Network.loadingFinished', ({ encodedDataLength }) => (bytes += encodedDataLength));
      await visitor.open('/');
      await visitor.fill('API key', bench.api.key);
      await visitor.click('Sign in', 'button');
      await vitalsOf(visitor);
      figures['first page, KB'] = bytes / 1000;
      await visitor.page.setCacheEnabled(false);
      await visitor.open('/');
      const { LCP, CLS, FCP, TTFB } = await vitalsOf(visitor);
      Object.assign(figures, { 'LCP, ms': LCP, 'FCP, ms': FCP, 'TTFB, ms': TTFB, CLS });
      await visitor.page.setCacheEnabled(true);
      Object.assign(figures, await timesToContent(bench, visitor));
    });
    Object.assign(figures, await bundleSizes());
    for (const path of [
      '/overview?period=hour&endpoint_id=we_x',
      '/accounts?limit=50&search=u9999',
      '/webhooks/conversations?status=failed&limit=50',
    ]) {
      figures[`${path.split('?')[0]}, p95, ms`] = percentile(await timesOf(bench, path), 0.95);
    }
    for (const period of ['hour', 'day']) {
      // its figures are cached for seconds: only the first request reads them
      figures[`/overview ${period}, ms`] = Math.max(...(await timesOf(bench, `/overview?period=${period}`)));
    }
    return figures;
  },
};
