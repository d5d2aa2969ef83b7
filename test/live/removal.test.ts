import { randomBytes } from 'node:crypto';
import { mkdtemp, readdir, readFile, rm, stat } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { Client, Connection } from '@temporalio/client';
import { createPayloadCodec } from '../../src/temporal/codec.ts';
import { removeWorkflowId, SEARCH_ATTRIBUTES } from '../../src/workflows/names.ts';
import { freePort, listenOnFreePort } from '../helpers/servers/free-port.ts';
import { type ConnectedUser, connectUser, type OwnLive, startLive } from '../helpers/product/live.ts';
import { addUser } from '../helpers/product/mail-user.ts';
import { waitFor } from '../helpers/assert/wait.ts';

/**
 * Words that exist nowhere else are in a password, a subject, a text, a file and an address. With STORAGE_ENCRYPTION no file
 * holds them while the account exists; after its removal nothing does, even with the key.
 */
const word = () => `canary${randomBytes(9).toString('hex')}`;
const CANARIES = {
  password: word(),
  subject: word(),
  body: word(),
  fileName: word(),
  file: word(),
  localPart: word(),
  folder: word(),
  metadata: word(),
  label: word(),
};
const KEY = randomBytes(32);

let live: OwnLive;
let owner: ConnectedUser;
let workerMetrics: string;
let snapshots: string;
/** its path below the account */
let attachment: string;

beforeAll(async () => {
  const port = await freePort();
  snapshots = await mkdtemp(join(tmpdir(), 'heaps-'));
  workerMetrics = `http://127.0.0.1:${port}/metrics`;
  live = await startLive({
    LOG_LEVEL: 'trace',
    ENCRYPTION_KEY: KEY.toString('base64'),
    STORAGE_ENCRYPTION: 'true',
    WORKER_METRICS_PORT: String(port),
    NODE_OPTIONS: `--heapsnapshot-signal=SIGUSR2 --diagnostic-dir=${snapshots}`,
  });
  await useAccount();
}, 180_000);
afterAll(async () => {
  await live?.close();
  await rm(snapshots, { recursive: true, force: true });
});

async function useAccount(): Promise<void> {
  // it fails, and quotes what it got: both are in the delivery log
  const failing = createServer((request, response) => void request.pipe(response.writeHead(500)));
  const url = `http://127.0.0.1:${await listenOnFreePort(failing)}/`;
  const endpoint = await live.api.post<{ id: string }>('/webhooks/endpoints', { url, trigger_events: ['email.new'] });
  const user = await addUser({ user: `${CANARIES.localPart}@example.test`, password: CANARIES.password });
  owner = await connectUser(live, { user: user.user, password: user.password });
  await owner.box.createFolder(CANARIES.folder);
  await owner.box.append('INBOX', {
    to: user.user,
    subject: CANARIES.subject,
    text: CANARIES.body,
    attachments: [{ name: `${CANARIES.fileName}.txt`, type: 'text/plain', content: Buffer.from(CANARIES.file) }],
  });
  const { event } = await owner.event('email.new');
  const { email } = event.data as { email: { id: string; attachments: { id: string }[] } };
  attachment = `emails/${email.id}/attachments/${email.attachments[0]?.id ?? ''}`;
  const mail = {
    to: [{ email: user.user }],
    subject: CANARIES.subject,
    html: `<p>${CANARIES.body}</p>`,
    metadata: CANARIES.metadata,
    tracking_options: { opens: true, label: CANARIES.label },
  };
  for (const [path, key] of [
    ['emails/send', 'one'],
    ['drafts', 'two'],
  ] as const) {
    const headers = { 'Idempotency-Key': key };
    const { ok } = await live.api.request('POST', `/${owner.account.id}/${path}`, mail, headers);
    expect([path, ok]).toEqual([path, true]);
  }
  await owner.settle();
  failing.close();
  failing.closeAllConnections();
  // its breaker would hold back what is pending for minutes; its log stays
  await live.api.delete(`/webhooks/endpoints/${endpoint.id}`);
}

function found(text: string): string[] {
  const forms = (value: string) => [
    value,
    Buffer.from(value).toString('base64').slice(0, -4),
    Buffer.from(value).toString('hex'),
  ];
  return Object.entries(CANARIES).flatMap(([name, value]) =>
    forms(value).some((form) => text.includes(form)) ? [name] : [],
  );
}

async function filesBelow(folder: string): Promise<string> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  const texts = await Promise.all(files.map(async (path) => `${path}\n${await readFile(path, 'latin1')}`));
  return texts.join('\n');
}

/** Every row of every table; sealed columns in hex. */
async function database(): Promise<string> {
  const { pool } = live.product.database.database;
  const { rows: tables } = await pool.query<{ name: string }>(
    `select quote_ident(table_schema) || '.' || quote_ident(table_name) as name from information_schema.tables
     where table_schema not in ('pg_catalog', 'information_schema')`,
  );
  const texts: string[] = [];
  for (const { name } of tables) {
    const { rows } = await pool.query<{ row: string }>(`select t::text as row from ${name} t`);
    texts.push(...rows.map(({ row }) => `${name} ${row}`));
  }
  return texts.join('\n');
}

/** The histories that Temporal still has, opened with the key of the installation, and the account's runs: id and status. */
async function histories(): Promise<{ text: string; runs: string[] }> {
  const { address, namespace } = live.product.temporal;
  const connection = await Connection.connect({ address });
  const codec = createPayloadCodec({ current: KEY }, 'show');
  const client = new Client({ connection, namespace, dataConverter: { payloadCodecs: [codec] } });
  const parts: string[] = [];
  const open = async (value: unknown): Promise<void> => {
    if (typeof value === 'string') parts.push(value);
    if (typeof value !== 'object' || value === null) return;
    if ('metadata' in value && 'data' in value && value.data instanceof Uint8Array) {
      const [payload] = await codec.decode([value as never]).catch(() => [value as never]);
      parts.push(Buffer.from((payload as { data?: Uint8Array }).data ?? []).toString('latin1'));
    } else if (value instanceof Uint8Array) parts.push(Buffer.from(value).toString('latin1'));
    else for (const inner of Object.values(value)) await open(inner);
  };
  try {
    for await (const { workflowId, runId } of client.workflow.list()) {
      const history = await client.workflow
        .getHandle(workflowId, runId)
        .fetchHistory()
        .catch(() => undefined);
      await open(history);
    }
    const runs: string[] = [];
    const query = `${SEARCH_ATTRIBUTES.mailAccount} = "${owner.account.id}"`;
    for await (const run of client.workflow.list({ query })) runs.push(`${run.workflowId} ${run.status.name}`);
    return { text: parts.join('\n'), runs };
  } finally {
    await connection.close();
  }
}

const metrics = async () =>
  (await Promise.all([workerMetrics, `${live.api.base}/metrics`].map(async (url) => (await fetch(url)).text()))).join();

/** The heaps of the API and the worker after a full garbage collection. */
async function inHeaps(): Promise<string[]> {
  const texts: string[] = [];
  for (const pid of live.product.pids()) {
    process.kill(pid, 'SIGUSR2');
    let written = -1;
    const path = await waitFor(
      async () => {
        const name = (await readdir(snapshots)).find((file) => file.includes(`.${pid}.`));
        const size = name ? (await stat(join(snapshots, name))).size : 0;
        const isWhole = size > 0 && size === written;
        written = size;
        return isWhole && name ? join(snapshots, name) : undefined;
      },
      { timeoutMs: 60_000, everyMs: 1000, what: 'a heap snapshot' },
    );
    texts.push(await readFile(path, 'latin1'));
    await rm(path);
  }
  // a timer that has not ended may name the address for some minutes; the mail itself and the password are let go
  return found(texts.join('\n')).filter((name) => name !== 'localPart');
}

test('while the account exists its files are encrypted, and logs and metrics reveal nothing', async () => {
  const stored = await filesBelow(join(live.product.dataDir, 'storage'));
  expect(stored.length).toBeGreaterThan(1000);
  expect(found(stored)).toEqual([]);
  const response = await live.api.request('GET', `/${owner.account.id}/${attachment}`);
  expect([response.status, await response.text()]).toEqual([200, CANARIES.file]);
  expect(found(await live.product.logs())).toEqual([]);
  expect(found(await metrics())).toEqual([]);
  expect(found(await filesBelow(join(live.product.dataDir, 'tmp')))).toEqual([]);
  // the database has the mail, but not the password; so the search below can find something
  expect(found(await database())).toEqual(expect.arrayContaining(['subject', 'body', 'fileName', 'localPart']));
  expect(found(await database())).not.toContain('password');
  expect(await inHeaps()).toContain('password');
}, 60_000);

test('after its removal nothing is left, even with the key of the installation', async () => {
  await live.api.delete(`/accounts/${owner.account.id}`);
  const { event } = await owner.event('account.remove');
  expect(JSON.stringify(event.data)).toContain(CANARIES.localPart);
  // what its last endpoint has not got is given up
  let left: string[] = [];
  const search = async () => {
    left = (await database()).split('\n').filter((row) => found(row).length > 0);
    return left.length === 0;
  };
  await waitFor(search, {
    timeoutMs: 120_000,
    everyMs: 500,
    what: () => `the database to hold nothing of the account; left: ${left.join('\n').slice(0, 4000)}`,
  });
  const runs = async () => (await histories()).runs.filter((run) => !run.includes(removeWorkflowId(owner.account.id)));
  let runsLeft: string[] = [];
  await waitFor(async () => (runsLeft = await runs()).length === 0, {
    timeoutMs: 90_000,
    everyMs: 1000,
    what: () => `the runs of the account to be deleted; left: ${runsLeft.join(', ')}`,
  });
  expect(found((await histories()).text)).toEqual([]);
  expect(found(await filesBelow(live.product.dataDir))).toEqual([]);
  expect(found(await metrics())).toEqual([]);
  // the row goes last, when its runs have been looked for once more
  const row = new RegExp(`^public\\.accounts .*${owner.account.id}`, 'm');
  await waitFor(async () => !row.test(await database()), {
    timeoutMs: 30_000,
    everyMs: 500,
    what: "the account's row to go",
  });
  expect(await database()).toContain(owner.account.id);
}, 240_000);

test('nor in the heap of a process', async () => {
  let left: string[] = [];
  await waitFor(async () => (left = await inHeaps()).length === 0, {
    timeoutMs: 90_000,
    everyMs: 2000,
    what: () => `the heaps to hold nothing of the account; left: ${left.join(', ')}`,
  });
}, 120_000);
