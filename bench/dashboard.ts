import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import pg from 'pg';
import { type Browsing, browse, startBrowser } from '../test/helpers/browser.ts';
import { fillLog } from './delivery-log.ts';
import { type Bounds, type Figures, percentile } from './figures.ts';
import { type Bench, databaseUrl } from './setup.ts';

const ACCOUNTS = 10_000;
const REQUESTS = 20;

/** What web-vitals reports of a page; a script of the browser itself, which the policy of the page lets run. */
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

/** Opens the overview, signed in; the first time with nothing stored by the browser. */
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

/** The dashboard with 10,000 mailboxes and a delivery log of 1,000,000 records. */
export const dashboard = {
  title: 'Dashboard, 10,000 mailboxes and 1,000,000 deliveries',
  bounds: { 'LCP, ms': { most: 1_000 }, CLS: { most: 0.01 }, 'first page, KB': { most: 150 } } satisfies Bounds,
  rounds: 3,
  async prepare(bench: Bench): Promise<null> {
    const pool = new pg.Pool({ connectionString: await databaseUrl(bench), max: 1 });
    await fillLog(pool);
    await pool.query(
      `insert into accounts (id, user_id, name, mailbox_key, imap_host, imap_port, imap_user, imap_encryption, smtp_host,
        smtp_port, smtp_user, smtp_encryption, credentials, created_at, connected_at, status)
      select 'acc_02' || lpad(n::text, 24, '0'), 'u' || n || '@example.com', 'u' || n || '@example.com', 'k' || n,
        'mail.example.com', 993, 'u' || n, 'SSL', 'mail.example.com', 465, 'u' || n, 'SSL', '', now(), now(), 'disconnected'
      from generate_series(1, ${ACCOUNTS}) n`,
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
      await visitor.open('/mailboxes?search=u9999%40');
      await visitor.sees('u9999@example.com');
      figures['mailboxes, LCP, ms'] = ((await visitor.page.evaluate('vitals')) as Vitals).LCP;
    });
    for (const path of [
      '/overview?period=hour&endpoint_id=we_x',
      '/accounts?limit=50&search=u9999',
      '/webhooks/conversations?status=failed&limit=50',
    ]) {
      figures[`${path.split('?')[0]}, p95, ms`] = percentile(await timesOf(bench, path), 0.95);
    }
    for (const period of ['hour', 'day']) {
      // its own figures are kept for seconds: the first one is the one that reads
      figures[`/overview ${period}, ms`] = Math.max(...(await timesOf(bench, `/overview?period=${period}`)));
    }
    return figures;
  },
};
