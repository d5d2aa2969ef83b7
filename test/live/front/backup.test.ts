import { execFile } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { projectRoot } from '../../../src/runtime/project-root.ts';
import { codeBlocks, read } from '../../helpers/assert/markdown.ts';
import { waitFor } from '../../helpers/assert/wait.ts';
import { emailOf, type Receiver, startReceiver } from '../../helpers/fakes/receiver.ts';
import { Api } from '../../helpers/product/api.ts';
import { newMessageId } from '../../helpers/product/mail-text.ts';
import { addUser, doveadm } from '../../helpers/product/mail-user.ts';
import { type Mailbox, openMailbox } from '../../helpers/product/mailbox.ts';
import { type Started, start } from '../../helpers/product/start.ts';
import { freePort } from '../../helpers/servers/free-port.ts';

/** The lines of docs/operating.md that back up and restore what `npm start` stores, and what the pages say of an older copy. */

const [BACK_UP = '', RESTORE = ''] = codeBlocks(read(projectRoot(), 'docs/operating.md'))
  .filter(({ language }) => language === 'sh')
  .map(({ text }) => text);

let dir: string;
let dataDir: string;
let settings: Record<string, string>;
let running: Started | undefined;
let receiver: Receiver;
let box: Mailbox | undefined;

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'backup-'));
  // as root, Postgres runs as a user that must be able to enter
  await chmod(dir, 0o711);
  dataDir = join(dir, 'data');
  settings = {
    PORT: String(await freePort()),
    TEMPORAL_UI_PORT: String(await freePort()),
    // the shells of the lines do not set it
    STORAGE_URL: pathToFileURL(join(dir, 'mail')).href,
  };
  receiver = await startReceiver();
});

afterAll(async () => {
  await stop();
  await box?.close();
  await receiver.close();
  await rm(dir, { recursive: true, force: true, maxRetries: 5 });
}, 30_000);

async function begin(): Promise<Api> {
  running = start(dataDir, settings, 'dist/start.js');
  await running.ready(120_000);
  const key = await readFile(join(dataDir, 'bootstrap-api-key'), 'utf8');
  return new Api(`http://127.0.0.1:${settings['PORT']}`, key.trim());
}

async function stop(): Promise<void> {
  running?.child.kill('SIGTERM');
  await running?.ended();
  running = undefined;
}

/** Runs shell lines of the page in the project; resolves to their output. */
async function run(lines: string, env: Record<string, string> = {}): Promise<string> {
  const placed = lines.replaceAll('email-api-backup.tar.gz', join(dir, 'backup.tar.gz'));
  const options = { cwd: projectRoot(), env: { ...process.env, DATA_DIR: dataDir, ...env } };
  return (await promisify(execFile)('sh', ['-ec', placed], options)).stdout;
}

it('a backup is made while it runs; restored three times, nothing is lost to a receiver and nothing is sent twice', async () => {
  const [user, ada] = [await addUser(), await addUser()];
  box = await openMailbox(user);
  const reported = (messageId: string, after = 0) =>
    receiver.waitFor(
      ({ event }) =>
        event.type === 'email.new' && event.sequence > after && emailOf({ event }).message_id === messageId,
      { timeoutMs: 60_000 },
    );
  const append = async (subject: string) => {
    const messageId = newMessageId();
    await box?.append('INBOX', { subject, messageId });
    return messageId;
  };
  const send = async (api: Api, order: string): Promise<{ id: string; message_id: string }> => {
    const mail = { to: [{ email: ada.user }], subject: order, html: '<p>One, please</p>' };
    const sent = await api.request('POST', `/${account.id}/emails/send`, mail, { 'Idempotency-Key': order });
    expect(sent.status).toBe(200);
    return (await sent.json()) as { id: string; message_id: string };
  };
  const arrived = async (order: string) => {
    const found = await doveadm(ada, 'search', '-u', ada.user, 'subject', order);
    return found.trim().split('\n').filter(Boolean).length;
  };
  const lastSequence = () => Math.max(0, ...receiver.accepted().map(({ event }) => event.sequence));

  let api = await begin();
  await api.listen(receiver, { types: ['email.new', 'account.restored'] });
  const account = await api.connect(user);
  const old = await reported(await append('before'));
  expect(old.event).not.toHaveProperty('epoch');
  await send(api, 'Order 0');
  expect(await run(BACK_UP)).toMatch(
    /backup\.tar\.gz is complete\. .* encryption key \w+ \(.*encryption-key\).*, together with .* \(.*bootstrap-api-key\)\./,
  );

  const { stdout } = await promisify(execFile)('tar', ['-tzf', join(dir, 'backup.tar.gz')]);
  expect(stdout).toContain(`storage/${account.id}/`);

  const lost: string[] = [];
  const orders: string[] = ['Order 0'];
  let epoch = 0;
  for (const round of [1, 2, 3]) {
    lost.push(await append(`after, ${round}`));
    const before = await reported(lost.at(-1) ?? '');
    const order = `Order ${round}`;
    orders.push(order);
    const first = await send(api, order);
    await waitFor(async () => (await arrived(order)) === 1, { timeoutMs: 30_000 });
    await reported(first.message_id);
    await stop();
    expect(await run(RESTORE)).toMatch(/^Restored 1 accounts as of/m);
    const seen = lastSequence();

    api = await begin();
    const { event } = await receiver.waitFor(
      (call) => call.event.type === 'account.restored' && call.event.sequence > seen,
      {
        timeoutMs: 30_000,
      },
    );
    expect(event.epoch).toBeGreaterThan(epoch);
    epoch = event.epoch ?? 0;
    expect(event.data).toMatchObject({ epoch });
    for (const messageId of lost) {
      const again = await reported(messageId, seen);
      expect(again.event.epoch).toBe(epoch);
    }
    const page = await api.get<{ data: { type: string }[] }>(`/webhooks/events?after=${before.event.id}&limit=1`);
    expect(page.data).toMatchObject([{ type: 'account.restored' }]);
    expect(await api.email(account.id, emailOf(old).id)).toMatchObject({ subject: 'before' });
    expect((await api.request('GET', `/${account.id}/emails/${emailOf(before).id}`)).status).toBe(404);

    for (const each of orders) {
      const { id, message_id: messageId } = await send(api, each);
      await waitFor(async () => (await api.request('GET', `/${account.id}/emails/${id}`)).status === 200);
      expect((await api.email(account.id, id)).message_id).toBe(messageId);
    }
    const { data } = await api.emails(account.id, { limit: '100' });
    expect(data.map(({ subject }) => subject).sort()).toEqual(
      [...orders, 'before', ...lost.map((_, n) => `after, ${n + 1}`)].sort(),
    );
  }
  expect(await Promise.all(orders.map(arrived))).toEqual([1, 1, 1, 1]);
  const events = new Map(receiver.accepted({ account: account.id }).map(({ event }) => [event.id, event.sequence]));
  expect(new Set(events.values()).size).toBe(events.size);
}, 600_000);

it('a backup that cannot be used leaves everything as it was, and one line says why', async () => {
  await stop();
  const files = () => readdirSync(dataDir).filter((name) => !/^(lock|processes\.json|logs)/.test(name));
  const before = files();
  const failure = (lines: string, env?: Record<string, string>) =>
    run(lines, env).then(
      () => 'no failure',
      ({ stderr }: { stderr: string }) => stderr.trim().split('\n').at(-1),
    );
  const otherKey = Buffer.alloc(32, 1).toString('base64');
  expect(await failure(RESTORE, { ENCRYPTION_KEY: otherKey })).toMatch(
    /made with the encryption key \w+, and the one in force/,
  );
  expect(await failure(BACK_UP)).toMatch(/exists already: name another file\.$/);
  const whole = await readFile(join(dir, 'backup.tar.gz'));
  await writeFile(join(dir, 'backup.tar.gz'), whole.subarray(0, whole.length / 2));
  expect(await failure(RESTORE)).toMatch(/is damaged or not a backup/);
  expect(files()).toEqual(before);
  expect(existsSync(join(dir, 'mail.unpacked'))).toBe(false);
}, 120_000);
