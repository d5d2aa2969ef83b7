import { execFileSync } from 'node:child_process';
import { chmod, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
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

/** The lines of docs/operating.md that back up and restore what `npm start` stores, and what the page says of an older copy. */

const [BACK_UP = '', RESTORE = ''] = codeBlocks(read(projectRoot(), 'docs/operating.md'))
  .filter(({ language }) => language === 'sh')
  .map(({ text }) => text);

let dir: string;
let settings: Record<string, string>;
let running: Started | undefined;
let receiver: Receiver;
let box: Mailbox | undefined;

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'backup-'));
  // as root, Postgres runs as a user that must be able to enter
  await chmod(dir, 0o711);
  settings = { PORT: String(await freePort()), TEMPORAL_UI_PORT: String(await freePort()) };
  receiver = await startReceiver();
});

afterAll(async () => {
  await stop();
  await box?.close();
  await receiver.close();
  await rm(dir, { recursive: true, force: true, maxRetries: 5 });
}, 30_000);

async function begin(): Promise<Api> {
  running = start(join(dir, '.data'), settings, 'dist/start.js');
  await running.ready(120_000);
  const key = await readFile(join(dir, '.data', 'bootstrap-api-key'), 'utf8');
  return new Api(`http://127.0.0.1:${settings['PORT']}`, key.trim());
}

async function stop(): Promise<void> {
  running?.child.kill('SIGTERM');
  await running?.ended();
  running = undefined;
}

const run = (lines: string) => execFileSync('sh', ['-ec', lines], { cwd: dir });

it('restores an older copy: mail since then is reported anew, and a repeated send is sent again', async () => {
  const [user, ada] = [await addUser(), await addUser()];
  box = await openMailbox(user);
  const [before, after] = [newMessageId(), newMessageId()];
  const reported = (messageId: string, butNot = '') =>
    receiver.waitFor(({ event }) => event.id !== butNot && emailOf({ event }).message_id === messageId, {
      timeoutMs: 60_000,
    });
  const send = async (api: Api) => {
    const mail = { to: [{ email: ada.user }], subject: 'Order 4711', html: '<p>One, please</p>' };
    const sent = await api.request('POST', `/${account.id}/emails/send`, mail, { 'Idempotency-Key': 'order-4711' });
    expect(sent.status).toBe(200);
  };
  const arrived = async () => {
    const found = await doveadm(ada, 'search', '-u', ada.user, 'subject', 'Order 4711');
    return found.trim().split('\n').filter(Boolean).length;
  };

  const first = await begin();
  await first.listen(receiver, { types: ['email.new'] });
  const account = await first.connect(user);
  await box.append('INBOX', { subject: 'before', messageId: before });
  const old = emailOf(await reported(before));
  await stop();
  run(BACK_UP);

  const second = await begin();
  await box.append('INBOX', { subject: 'after', messageId: after });
  const lost = await reported(after);
  await send(second);
  await waitFor(async () => (await arrived()) === 1);
  await stop();
  run(RESTORE);

  const restored = await begin();
  const anew = await reported(after, lost.event.id);
  expect(emailOf(anew).id).not.toBe(emailOf(lost).id);
  expect(anew.event.sequence).toBeLessThanOrEqual(lost.event.sequence);
  expect(await restored.email(account.id, old.id)).toMatchObject({ message_id: before, subject: 'before' });
  expect((await restored.request('GET', `/${account.id}/emails/${emailOf(lost).id}`)).status).toBe(404);
  await send(restored);
  await waitFor(async () => (await arrived()) === 2);
}, 300_000);
