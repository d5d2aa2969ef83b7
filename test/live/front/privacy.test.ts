import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { Client, Connection } from '@temporalio/client';
import { WorkflowNotFoundError } from '@temporalio/common';
import type { PayloadCodec } from '@temporalio/common';
import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { ApiFailure } from '../../helpers/product/api.ts';
import { freePort } from '../../helpers/servers/free-port.ts';
import { type ConnectedUser, connectUser, type OwnLive, startLive } from '../../helpers/product/live.ts';
import { addUser, kick, setPassword } from '../../helpers/product/mail-user.ts';
import { submit } from '../../helpers/product/mailbox.ts';
import { emailOf, startReceiver } from '../../helpers/fakes/receiver.ts';
import { waitFor } from '../../helpers/assert/wait.ts';

/**
 * Mail contents and credentials are not in any workflow history, log line or error:
 * words that exist nowhere else are sent through every path, and looked for afterwards.
 */

const CANARIES = {
  password: word(),
  wrongPassword: word(),
  newPassword: word(),
  subject: word(),
  body: word(),
  fileName: word(),
  localPart: word(),
  sender: word(),
  folder: word(),
  hookHeader: word(),
  metadata: word(),
  label: word(),
  recipient: word(),
};
const SECRETS = [CANARIES.password, CANARIES.wrongPassword, CANARIES.newPassword, CANARIES.hookHeader];

/** what Temporal has before an account is removed, which deletes its runs */
let beforeRemoval: { type: string; text: string }[] = [];
let live: OwnLive;
const errors: string[] = [];

beforeAll(async () => {
  live = await startLive({ LOG_LEVEL: 'trace' });
  await useEveryPath();
}, 180_000);

afterAll(() => live?.close());

function word(): string {
  return `canary${randomBytes(9).toString('hex')}`;
}

async function collect(call: Promise<unknown>): Promise<void> {
  const error: unknown = await call.catch((reason: unknown) => reason);
  if (!(error instanceof ApiFailure)) throw new Error('this call should have been refused');
  errors.push(JSON.stringify(error.body));
}

async function useEveryPath(): Promise<void> {
  const failing = await startReceiver();
  failing.answer = () => 500;
  await live.api.post('/webhooks/endpoints', {
    url: `${failing.url}?q=1`,
    trigger_events: ['email.new', 'account.add', 'email.new.bounce'],
    headers: [{ name: 'X-Own', value: CANARIES.hookHeader }],
  });
  const user = await addUser({ user: `${CANARIES.localPart}@example.test`, password: CANARIES.password });
  await collect(live.api.connect({ ...user, password: CANARIES.wrongPassword }));
  await collect(live.api.connect(user, { imapPort: await freePort() }));
  await collect(live.api.connect(user, { account_id: 'acc_01hzzzzzzzzzzzzzzzzzzzzzzz' }));

  const owner = await connectUser(live, {
    user: user.user,
    password: user.password,
    before: async (box) => {
      await box.append('INBOX', { subject: CANARIES.subject, text: CANARIES.body });
    },
    config: { initial_sync_enable: true },
  });
  await owner.event('account.initial_sync.completed', undefined, { timeoutMs: 30_000 });
  await owner.box.createFolder(CANARIES.folder);
  await owner.box.append('INBOX', {
    from: `${CANARIES.sender} <${CANARIES.sender}@elsewhere.test>`,
    to: user.user,
    subject: CANARIES.subject,
    text: CANARIES.body,
    attachments: [{ name: `${CANARIES.fileName}.txt`, type: 'text/plain', content: Buffer.from(CANARIES.body) }],
  });
  // mail that is hard to read must not be quoted in a complaint
  await owner.box.append(
    'INBOX',
    Buffer.from(`Subject: =?utf-8?B?${CANARIES.subject}\r\nContent-Type: multipart/mixed\r\n\r\n${CANARIES.body}`),
  );
  await submit(owner.user, 'missing.user@example.test', { subject: CANARIES.subject, text: CANARIES.body });
  await owner.event('email.new.bounce');
  const { uid } = await owner.receive('INBOX', CANARIES.subject);
  await owner.box.move('INBOX', uid, CANARIES.folder);
  await owner.event('email.update');
  await owner.settle(CANARIES.folder);

  await write(owner);

  await setPassword(owner.user, CANARIES.newPassword);
  await kick(owner.user);
  await owner.event('account.status.disconnected', undefined, { timeoutMs: 60_000 });
  await collect(
    live.api.connect({ ...owner.user, password: CANARIES.wrongPassword }, { account_id: owner.account.id }),
  );
  await live.api.connect(owner.user, { account_id: owner.account.id });
  await owner.event('account.reconnect');
  beforeRemoval = await histories();
  await live.api.delete(`/accounts/${owner.account.id}`);
  await owner.event('account.remove');
  await failing.close();
}

/** Sends, drafts and changes, those that are refused too. */
async function write(owner: ConnectedUser): Promise<void> {
  const { api } = live;
  const path = (rest: string) => `/${owner.account.id}${rest}`;
  const mail = {
    to: [{ email: owner.user.user, display_name: CANARIES.recipient }],
    subject: CANARIES.subject,
    html: `<p>${CANARIES.body} <a href="https://${CANARIES.body}.test/">x</a></p>`,
    metadata: CANARIES.metadata,
    tracking_options: { opens: true, links: true, label: CANARIES.label },
    attachments: [{ content: Buffer.from(CANARIES.body).toString('base64'), filename: `${CANARIES.fileName}.txt` }],
  };
  const { id } = await api.post<{ id: string }>(path('/emails/send'), mail);
  await owner.event('email.new', (call) => emailOf(call).id === id);
  await collect(api.post(path('/emails/send'), { ...mail, subject: `${CANARIES.subject}\n` }));
  const draft = await api.post<{ id: string }>(path('/drafts'), mail);
  const updated = await api.patch<{ id: string }>(path(`/drafts/${draft.id}`), { subject: CANARIES.subject });
  await api.post(path(`/drafts/${updated.id}/send`));
  const folder = await api.post<{ id: string }>(path('/folders'), { name: `${CANARIES.folder} 2` });
  await collect(api.post(path('/folders'), { name: `${CANARIES.folder} 2` }));
  await api.post(path(`/emails/${id}/modify`), { folders_ids: [folder.id] });
  await api.delete(path(`/folders/${folder.id}`));
  await owner.settle();
}

function found(text: string, words: string[]): string[] {
  const forms = (value: string) => [
    value,
    Buffer.from(value).toString('base64').slice(0, -4),
    Buffer.from(value).toString('hex'),
  ];
  return words.filter((value) => forms(value).some((form) => text.toLowerCase().includes(form.toLowerCase())));
}

/** Of each run the type, and all that Temporal has of it as text. What is encrypted stays as it is. */
async function histories(): Promise<{ type: string; text: string }[]> {
  const { address, namespace } = live.product.temporal;
  const connection = await Connection.connect({ address });
  const asStored: PayloadCodec = {
    encode: (payloads) => Promise.resolve(payloads),
    decode: (payloads) =>
      Promise.resolve(payloads.map((payload) => ({ ...payload, metadata: { encoding: Buffer.from('binary/plain') } }))),
  };
  const client = new Client({ connection, namespace, dataConverter: { payloadCodecs: [asStored] } });
  const found: { type: string; text: string }[] = [];
  for await (const run of client.workflow.list()) {
    const handle = client.workflow.getHandle(run.workflowId, run.runId);
    const stored = await Promise.all([handle.describe(), handle.fetchHistory()]).catch((error: unknown) => {
      // the removal of an account deletes its runs, those that are listed here too
      if (error instanceof WorkflowNotFoundError || (error as { code?: unknown }).code === GRPC_NOT_FOUND) return;
      throw error;
    });
    if (stored) found.push({ type: run.type, text: readable([stored[0].raw, stored[1], run.workflowId]) });
  }
  await connection.close();
  return found;
}

const GRPC_NOT_FOUND = 5;

test('no canary in any workflow history, memo or search attribute', async () => {
  const all = [...beforeRemoval, ...(await histories())];
  for (const { type, text } of all) expect([type, found(text, Object.values(CANARIES))]).toEqual([type, []]);
  expect(all.map(({ type }) => type)).toEqual(
    expect.arrayContaining([
      ...['account', 'connectMailbox', 'initialSync', 'deliverWebhooks'],
      ...['sendEmail', 'saveDraft', 'changeMailbox'],
    ]),
  );
}, 120_000);

test('no canary in the output of the processes, even at the most verbose log level', async () => {
  const logs = await live.product.logs();
  expect(logs.length).toBeGreaterThan(1_000);
  expect(found(logs, Object.values(CANARIES))).toEqual([]);
});

test('no canary in the errors of the API', () => {
  expect(errors).toHaveLength(6);
  expect(found(errors.join('\n'), Object.values(CANARIES))).toEqual([]);
});

test('no password anywhere in the database, the webhook calls or the answers', async () => {
  const { pool } = live.product.database.database;
  const { rows: tables } = await pool.query<{ name: string }>(
    `SELECT quote_ident(table_schema) || '.' || quote_ident(table_name) AS name FROM information_schema.tables
     WHERE table_schema NOT IN ('pg_catalog', 'information_schema')`,
  );
  expect(tables.length).toBeGreaterThan(5);
  for (const { name } of tables) {
    const { rows } = await pool.query<{ row: string }>(`SELECT t::text AS row FROM ${name} t`);
    expect([name, found(rows.map(({ row }) => row).join('\n'), SECRETS.slice(0, 3))]).toEqual([name, []]);
  }
  const calls = live.receiver.calls.map(({ body }) => body.toString()).join('\n');
  expect(found(calls, SECRETS)).toEqual([]);
});

test('no mail stays in the folder for temporary files, neither of a removed account nor of a killed worker', async () => {
  const { product } = live;
  const tempDir = join(product.dataDir, 'tmp');
  const filesIn = async () =>
    (await readdir(tempDir, { recursive: true, withFileTypes: true })).filter((entry) => entry.isFile());
  expect(await filesIn()).toEqual([]);
  const [own] = await readdir(tempDir);
  const folder = join(tempDir, own as string);
  await mkdir(join(folder, 'mail-1'));
  await writeFile(join(folder, 'mail-1', 'source'), CANARIES.body);
  await product.killWorker();
  product.startWorker();
  await waitFor(() => !existsSync(folder), {
    timeoutMs: 60_000,
    what: 'the folder of the killed worker to be removed',
  });
  expect(await filesIn()).toEqual([]);
}, 90_000);

/** Every string and every byte of a value, payloads included. */
function readable(value: unknown): string {
  const parts: string[] = [];
  const seen = new Set<object>();
  const walk = (one: unknown): void => {
    if (typeof one === 'string') parts.push(one);
    else if (one instanceof Uint8Array) parts.push(Buffer.from(one).toString('latin1'));
    else if (typeof one === 'object' && one !== null && !seen.has(one)) {
      seen.add(one);
      for (const [key, inner] of Object.entries(one)) {
        parts.push(key);
        walk(inner);
      }
    }
  };
  walk(value);
  return parts.join('\n');
}
