import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { parse } from 'yaml';
import { recordEvents } from '../../../src/db/outbox.ts';
import { freePort } from '../../helpers/servers/free-port.ts';
import { type Product, startProduct } from '../../helpers/product/product.ts';
import { metricsIn, metricsOf } from '../../helpers/assert/promql.ts';
import { startReceiver } from '../../helpers/fakes/receiver.ts';
import { storeAccount } from '../../helpers/product/stored-account.ts';
import { waitFor } from '../../helpers/assert/wait.ts';

/** The metrics of a running product, and that the board and the alerts use no others. */

const ROOT = join(import.meta.dirname, '..', '..', '..');
let product: Product;
let workerMetrics: string;

beforeAll(async () => {
  const port = await freePort();
  workerMetrics = `http://127.0.0.1:${port}/metrics`;
  product = await startProduct({ WORKER_METRICS_PORT: String(port) });
  // a run that ends, which the SDK then has measured; nothing listens there
  const side = { host: '127.0.0.1', port: await freePort(), encryption: 'none' };
  const credentials = { user: 'a@example.test', password: 'x', imap: side, smtp: side };
  const answer = await product.api.request(
    'POST',
    '/auth/intent',
    { provider: 'imap', credentials },
    { 'X-Request-Id': 'connect-1' },
  );
  expect(answer.status).toBe(502);
}, 120_000);
afterAll(() => product?.stop());

async function scrapes(): Promise<{ api: string; worker: string }> {
  const read = async (url: string) => (await fetch(url)).text();
  return { api: await read(`${product.api.base}/metrics`), worker: await read(workerMetrics) };
}

interface Rules {
  groups: { rules: { alert: string; expr: string }[] }[];
}
interface Board {
  panels: { title: string; targets: { expr: string }[] }[];
}
const rules = parse(readFileSync(join(ROOT, 'deploy/prometheus/alerts.yml'), 'utf8')) as Rules;
const board = JSON.parse(readFileSync(join(ROOT, 'deploy/grafana/email-api.json'), 'utf8')) as Board;
const queries: [string, string][] = [
  ...rules.groups.flatMap((group) => group.rules.map(({ alert, expr }): [string, string] => [alert, expr])),
  ...board.panels.flatMap(({ title, targets }) => targets.map(({ expr }): [string, string] => [title, expr])),
];

it('are served with whether the worker takes work', async () => {
  expect((await fetch(new URL('/ready', workerMetrics))).status).toBe(200);
});

describe('the metrics', () => {
  let served: Set<string>;
  beforeAll(async () => {
    await waitFor(async () => (await scrapes()).worker.includes('temporal_workflow_endtoend_latency'), {
      timeoutMs: 30_000,
    });
    const { api, worker } = await scrapes();
    served = new Set([...metricsOf(api), ...metricsOf(worker)]);
  }, 60_000);

  it.each(queries)('%s: %s', (_what, expr) => {
    const names = metricsIn(expr);
    expect(names.length).toBeGreaterThan(0);
    expect(names.filter((name) => !served.has(name))).toEqual([]);
  });

  it('count logins, and have the event loop of both processes', async () => {
    const { api, worker } = await scrapes();
    expect(worker).toMatch(/imap_logins_total\{outcome="failed"\} [1-9]/);
    for (const scrape of [api, worker]) expect(scrape).toMatch(/nodejs_eventloop_lag_p99_seconds \d/);
    expect(api).toMatch(/webhook_deliveries_waiting\{reason="due"\} 0/);
  });
});

it('the deliveries of an endpoint are counted, and how long they took', async () => {
  const receiver = await startReceiver();
  try {
    const endpoint = await product.api.listen(receiver);
    const accountId = await storeAccount(product.database.database);
    await product.database.database.db.transaction((tx) =>
      recordEvents(tx, accountId, [
        { type: 'account.status.errored', objectId: accountId, data: { status: 'errored' }, createdAt: new Date() },
      ]),
    );
    const counted = `webhook_deliveries_total{endpoint_id="${endpoint.id}",outcome="delivered"} 1`;
    await waitFor(async () => (await scrapes()).worker.includes(counted), { timeoutMs: 30_000, what: counted });
    const { worker } = await scrapes();
    expect(worker).toContain(
      `webhook_attempts_total{endpoint_id="${endpoint.id}",outcome="delivered",response="2xx"} 1`,
    );
    expect(worker).toMatch(/webhook_commit_to_receipt_seconds_count [1-9]/);
  } finally {
    await receiver.close();
  }
});

it('the first log line of each process has the version', async () => {
  const lines = (await product.logs()).split('\n').filter((line) => line.startsWith('{'));
  const parsed = lines.map((line) => JSON.parse(line) as { name: string; msg: string });
  for (const name of ['api', 'worker']) {
    const first = parsed.find((line) => line.name === name);
    expect(first).toMatchObject({ msg: 'process starting', version: expect.stringMatching(/^\d+\.\d+\.\d+$/) });
  }
});

describe('the id of a call', () => {
  it('is in the log lines of its activities, and in the memo of its workflow', async () => {
    await waitFor(async () => /"requestId":"connect-1".*activity finished/.test(await product.logs()), {
      timeoutMs: 30_000,
    });
    const lines = (await product.logs()).split('\n').filter((line) => line.includes('"requestId":"connect-1"'));
    const parsed = lines.map((line) => JSON.parse(line) as { name: string; activityType?: string; status?: number });
    expect(parsed).toContainEqual(expect.objectContaining({ name: 'worker', activityType: 'verifyMailbox' }));
    expect(parsed).toContainEqual(expect.objectContaining({ name: 'api', route: '/api/v1/auth/intent', status: 502 }));
  });
});
