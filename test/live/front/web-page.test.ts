import { chmod, mkdtemp, readFile, rm } from 'node:fs/promises';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { Client, Connection } from '@temporalio/client';
import { embedTemporal } from '../../../src/embedded/temporal.ts';
import { createSupervisor } from '../../../src/embedded/supervise.ts';
import { newId } from '../../../src/new-id.ts';
import { commandOf } from '../../../src/runtime/process-handle.ts';
import { HOUSEKEEPING_WORKFLOW_ID, WORKFLOWS } from '../../../src/workflows/names.ts';
import { openPage } from '../../helpers/product/open-page.ts';
import { freePort } from '../../helpers/servers/free-port.ts';
import { type HostilePage, type Shot, startHostilePage } from '../../helpers/fakes/hostile-page.ts';
import { listenersOf } from '../../helpers/servers/listening-ports.ts';
import { type Started, start } from '../../helpers/product/start.ts';
import { testTemporal } from '../../helpers/servers/temporal.ts';
import { startBrowser } from '../../helpers/product/browser.ts';
import { waitFor } from '../../helpers/assert/wait.ts';

/*
 * Nothing that a web page can reach changes anything: the pages of a hostile site, and the same requests without a browser,
 * go against every port that `npm start` listens on.
 */

let dir: string;
let product: Started;
let url: string;
let connection: Connection;
let client: Client;
const accountId = newId('account');
/** without a slash, which the HTTP API does not take */
const STARTED_BY_PAGE = 'by-page';

/** Requests to the HTTP API of Temporal, directly and below the UI's address, and to our own routes. */
const SHOTS: Shot[] = [
  ...['/api/v1/namespaces/default', '/namespaces/default'].flatMap((root) => [
    { method: 'GET', path: `${root}/workflows` },
    ...[
      [`/workflows/${STARTED_BY_PAGE}`, startOf(STARTED_BY_PAGE)],
      [`/workflows/${HOUSEKEEPING_WORKFLOW_ID}/terminate`, { reason: 'page' }],
      [`/workflows/${HOUSEKEEPING_WORKFLOW_ID}/cancel`, { reason: 'page' }],
      [
        '/batch-operations/page',
        { visibilityQuery: 'ExecutionStatus = "Running"', reason: 'page', terminationOperation: { identity: 'page' } },
      ],
    ].map(([path, body]) => ({ method: 'POST', path: `${root}${path as string}`, body: JSON.stringify(body) })),
  ]),
  { method: 'POST', path: '/decode', body: '{"payloads":[]}' },
  { method: 'POST', path: '/api/v1/api-keys', body: '{"name":"page"}' },
  { method: 'GET', path: '/api/v1/accounts' },
];

function startOf(workflowId: string) {
  const data = Buffer.from(JSON.stringify({ accountId })).toString('base64');
  return {
    workflowId,
    workflowType: { name: WORKFLOWS.removeAccount },
    taskQueue: { name: 'commands' },
    input: { payloads: [{ metadata: { encoding: Buffer.from('json/plain').toString('base64') }, data }] },
  };
}

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'web-page-'));
  // as root, Postgres runs as a user who has to come through
  await chmod(dir, 0o711);
  const port = await freePort();
  url = `http://127.0.0.1:${port}`;
  const settings = { PORT: String(port), TEMPORAL_UI_PORT: String(await freePort()) };
  product = start(join(dir, 'data'), settings, 'scripts/start.mjs');
  await product.ready(240_000);
  connection = await Connection.connect({ address: grpcAddress() });
  client = new Client({ connection });
}, 300_000);
afterAll(async () => {
  await connection?.close();
  product?.child.kill('SIGTERM');
  await product?.ended();
  await rm(dir, { recursive: true, force: true });
}, 60_000);

const pids = () => [product.child.pid ?? 0, ...product.handles().map(({ pid }) => pid)];
const listeners = () => listenersOf(pids());
const uiPort = () => Number(/Temporal UI\s+http:\/\/127\.0\.0\.1:(\d+)/.exec(product.output())?.[1]);

/** The worker's setting: the only one of Temporal's ports that speaks plain gRPC to clients. */
function grpcAddress(): string {
  const temporal = product.handles().map(({ pid }) => commandOf(pid));
  const port = temporal.map((line) => /start-dev.* --port (\d+)/.exec(line)?.[1]).find((found) => found !== undefined);
  return `127.0.0.1:${port ?? ''}`;
}

/** The state that an attack would change. */
async function state() {
  const key = (await readFile(join(dir, 'data', 'bootstrap-api-key'), 'utf8')).trim();
  const response = await fetch(`${url}/api/v1/api-keys`, { headers: { 'X-API-KEY': key } });
  const { data } = (await response.json()) as { data: { id: string }[] };
  const runs: string[] = [];
  for await (const run of client.workflow.list()) runs.push(`${run.workflowId} ${run.runId} ${run.status.name}`);
  return { keys: data.map(({ id }) => id), runs: runs.sort() };
}

/** The status of a request as a page could send it that reached the port under another name. */
function shoot({ method, path, body }: Shot, port: number, host: string, timeout = 3_000): Promise<number> {
  return new Promise((resolve) => {
    const headers = { host, origin: `http://${host}`, 'content-type': 'text/plain' };
    const outgoing = request({ host: '127.0.0.1', port, method, path, headers, timeout }, (response) => {
      response.resume();
      resolve(response.statusCode ?? 0);
    });
    // no HTTP: 0
    outgoing.on('timeout', () => outgoing.destroy());
    outgoing.on('error', () => resolve(0));
    outgoing.end(body);
  });
}

test('on an unprotected dev server these requests start and end runs', async () => {
  const [port, httpPort] = [await freePort(), await freePort()];
  const { part } = embedTemporal({ binary: testTemporal().binary, port });
  const open = part.args.filter((arg, index) => {
    const isOurs = (text: string | undefined) => /^frontend\.httpAllowedHosts|^system\.enableNexus/.test(text ?? '');
    return !isOurs(arg) && !isOurs(part.args[index + 1]);
  });
  const supervisor = createSupervisor({ logDir: join(dir, 'data', 'logs'), printLine: () => {} });
  await supervisor.start({ ...part, args: [...open, '--http-port', String(httpPort)] });
  const own = await Connection.connect({ address: `127.0.0.1:${port}` });
  try {
    const dev = new Client({ connection: own });
    const runs = async () => {
      const found: string[] = [];
      for await (const run of dev.workflow.list()) found.push(`${run.workflowId} ${run.status.name}`);
      return found;
    };
    await attack([httpPort], (reports) => {
      expect(reports.find(({ from }) => from.startsWith('/rebound/'))?.said).toMatch(/\b200\b/);
    });
    await waitFor(async () => (await runs()).includes(`${STARTED_BY_PAGE} TERMINATED`), {
      what: 'the run that the page started, and ended in a batch',
    });
    const statuses = [];
    for (const shot of SHOTS) statuses.push(await shoot(shot, httpPort, 'evil.test'));
    expect(statuses).toContain(200);
  } finally {
    await own.close();
    await supervisor.stop();
  }
}, 90_000);

test('every port refuses them under a foreign name', async () => {
  await waitForHousekeeping();
  const before = await state();
  const ports = listeners().map(({ port }) => port);
  expect(ports).toContain(uiPort());
  const taken: string[] = [];
  for (const port of ports) {
    for (const shot of SHOTS) {
      const status = await shoot(shot, port, `evil.test:${port}`);
      if (status >= 200 && status < 400) taken.push(`${shot.method} ${shot.path} at ${port}: ${status}`);
    }
  }
  expect(taken).toEqual([]);
  expect(await state()).toEqual(before);
}, 120_000);

test('a page reads nothing that needs no key under a foreign name', async () => {
  const [ofApi, ofWorker] = [/Metrics\s+(\S+) and (\S+)/.exec(product.output())].flatMap(
    (found) => found?.slice(1) ?? [],
  );
  const shots = [
    ...['/health', '/ready', '/metrics', '/docs/reference', '/docs/json', '/openapi.json'].map((path) => ({
      at: ofApi,
      path,
    })),
    { at: ofWorker, path: '/metrics' },
  ];
  for (const { at, path } of shots) {
    const port = Number(new URL(at ?? '').port);
    for (const [host, status] of [
      ['evil.test', 403],
      ['127.0.0.1', 200],
      ['localhost', 200],
    ] as const) {
      const read = await shoot({ method: 'GET', path }, port, `${host}:${port}`, 20_000);
      expect([path, host, read]).toEqual([path, host, status]);
    }
  }
});

test('the UI listens behind its guard, where a page does not find it', () => {
  const hidden = listeners().filter(({ ip }) => !['127.0.0.1', '0.0.0.0'].includes(ip));
  expect(hidden).toHaveLength(1);
  expect(hidden[0]?.ip).toMatch(/^127\.\d+\.\d+\.\d+$/);
});

test('the UI itself works: its pages may perform the actions of an operator', async () => {
  const ui = `http://127.0.0.1:${uiPort()}`;
  const page = await fetch(`${ui}/namespaces/default/workflows`);
  expect([page.status, page.headers.get('x-frame-options')]).toEqual([200, 'DENY']);
  // none of its pages sends an id of this installation to its makers
  expect(await (await fetch(`${ui}/api/v1/settings`)).json()).toMatchObject({ DisableNewsFetch: true });
  const token = /_csrf=([^;]+)/.exec(page.headers.getSetCookie().join())?.[1] ?? '';
  const handle = await client.workflow.start('nothing', { workflowId: 'to-cancel', taskQueue: 'no-worker' });
  const cancelled = await fetch(`${ui}/api/v1/namespaces/default/workflows/to-cancel/cancel`, {
    method: 'POST',
    headers: { Origin: ui, 'X-CSRF-Token': token, Cookie: `_csrf=${token}`, 'Content-Type': 'application/json' },
    body: '{"reason":"operator"}',
  });
  expect(cancelled.status).toBe(200);
  await handle.terminate();
}, 30_000);

test('the UI decodes payloads in a browser with its password, and in no other', async () => {
  const password = (await readFile(join(dir, 'data', 'temporal-ui-password'), 'utf8')).trim();
  const browser = await startBrowser();
  /** The statuses of the calls by which the page of a run has its payloads decoded. */
  const decodes = async (given: string) => {
    const page = await (await browser.createBrowserContext()).newPage();
    await page.authenticate({ username: 'operator', password: given });
    const statuses: number[] = [];
    page.on('response', (response) => {
      if (new URL(response.url()).pathname === '/codec/decode') statuses.push(response.status());
    });
    const run = encodeURIComponent(HOUSEKEEPING_WORKFLOW_ID);
    await page.goto(`http://127.0.0.1:${uiPort()}/namespaces/default/workflows/${run}`);
    await waitFor(() => statuses.length > 0, { timeoutMs: 60_000, what: 'a call of the codec' });
    return statuses;
  };
  try {
    expect(await decodes(password)).toContain(200);
    expect(await decodes('wrong')).not.toContain(200);
  } finally {
    await browser.close();
  }
}, 180_000);

test('a hostile page in a browser changes nothing and reads nothing', async () => {
  await waitForHousekeeping();
  const before = await state();
  const ports = [...new Set(listeners().flatMap(({ ip, port }) => (ip === '127.0.0.1' ? [port] : [])))];
  await attack(ports, (reports) => {
    const of = (kind: string) => reports.filter(({ from }) => from.startsWith(`/${kind}/`));
    expect(of('foreign').filter(({ said }) => said !== 'read 0')).toEqual([]);
    expect(of('rebound').filter(({ said }) => said.split(',').some((status) => /^[23]/.test(status)))).toEqual([]);
  });
  expect(await state()).toEqual(before);
}, 300_000);

/** Opens the hostile pages in a browser, and waits until they have attacked these ports. */
async function attack(ports: readonly number[], check: (reports: HostilePage['reports']) => void): Promise<void> {
  const site = await startHostilePage(ports, SHOTS);
  const page = openPage(site.url, join(dir, `profile-${ports.length}`), site.hosts);
  try {
    await waitFor(() => site.reports.length === 2 * ports.length, {
      timeoutMs: 240_000,
      everyMs: 200,
      what: () => `the reports of the pages on ports ${ports.join()}: ${JSON.stringify(site.reports)}`,
    });
    check(site.reports);
  } finally {
    await page.close();
    await site.close();
  }
}

/** It is in the list of runs a moment after it began. */
async function waitForHousekeeping(): Promise<void> {
  await waitFor(async () => (await state()).runs.some((run) => run.startsWith(HOUSEKEEPING_WORKFLOW_ID)), {
    timeoutMs: 30_000,
    what: 'the housekeeping run to be listed',
  });
}
