import { createHmac, randomBytes } from 'node:crypto';
import { createServer, type IncomingHttpHeaders, type Server, type ServerResponse } from 'node:http';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { AlertMessage, Overview } from '../../src/contract/overview.ts';
import { waitFor } from '../helpers/assert/wait.ts';
import { type ConnectedUser, connectUser, type OwnLive, startLive } from '../helpers/product/live.ts';
import { addUser, type MailUser, setPassword } from '../helpers/product/mail-user.ts';
import { type Mailbox, openMailbox } from '../helpers/product/mailbox.ts';
import { listenOnFreePort } from '../helpers/servers/free-port.ts';

/** Alerts by URL and by mail, from a real problem to its end, with a worker that is killed while it sends. */

const SECRET = `whsec_${randomBytes(32).toString('base64')}`;

interface Call {
  headers: IncomingHttpHeaders;
  body: Buffer;
  message: AlertMessage;
}

let live: OwnLive;
let ada: ConnectedUser;
let operator: MailUser;
let box: Mailbox;
let server: Server;
const calls: Call[] = [];
let answer: (response: ServerResponse) => void = (response) => void response.end();

beforeAll(async () => {
  server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const body = Buffer.concat(chunks);
      calls.push({ headers: request.headers, body, message: JSON.parse(body.toString()) as AlertMessage });
      answer(response);
    });
  });
  const port = await listenOnFreePort(server);
  operator = await addUser();
  box = await openMailbox(operator);
  const login = `${encodeURIComponent(operator.user)}:${encodeURIComponent(operator.password)}`;
  live = await startLive({
    SYNC_LOGIN_CHECK: '3s',
    ALERT_URL: `http://127.0.0.1:${port}/alerts`,
    ALERT_SECRET: SECRET,
    ALERT_EMAIL: operator.user,
    ALERT_SMTP_URL: `smtp://${login}@127.0.0.1:${operator.submissionPort}?tls=none`,
  });
  ada = await connectUser(live);
}, 180_000);

afterAll(async () => {
  await box?.close();
  await live?.close();
  server?.closeAllConnections();
  server?.close();
}, 60_000);

const idsOfCalls = () => new Set(calls.map(({ headers }) => headers['webhook-id']));
const alerts = async () => (await live.api.get<Overview>('/overview')).alerts;
const isSent = async (id: unknown) =>
  ((await live.pool.query(`select from alert_messages where id = $1 and sent_at is not null`, [id])).rowCount ?? 0) > 0;

test('a refused login is reported once, though a worker is killed between the call and its end', async () => {
  expect(await alerts()).toEqual({
    channels: [
      { channel: 'url', is_on: true, last: null },
      { channel: 'email', is_on: true, last: null },
    ],
    backlog: 10_000,
    open: 0,
  });
  // the call is received, and never answered
  answer = () => {};
  await setPassword(ada.user, 'a new one');
  await waitFor(() => calls.length === 1, { timeoutMs: 180_000, what: 'the alert' });
  await live.product.killWorker();
  answer = (response) => void response.end();
  const id = calls[0]?.headers['webhook-id'];
  expect(await isSent(id)).toBe(false);
  live.product.addWorker();
  live.product.addWorker();
  await waitFor(() => isSent(id), { timeoutMs: 240_000, what: 'the second attempt' });
  expect([...idsOfCalls()]).toEqual([id]);
  expect(calls).toHaveLength(2);

  const { headers, body, message } = calls[1] as Call;
  const key = Buffer.from(SECRET.slice('whsec_'.length), 'base64');
  const signed = `${headers['webhook-id']}.${headers['webhook-timestamp']}.${body.toString()}`;
  expect(headers['webhook-signature']).toBe(`v1,${createHmac('sha256', key).update(signed).digest('base64')}`);
  expect(message).toMatchObject({
    object: 'Alert',
    id,
    opened: [{ kind: 'mailbox_disconnected', id: ada.account.id, name: ada.account.name, server: '127.0.0.1' }],
    opened_total: 1,
    closed_total: 0,
  });
}, 600_000);

test('its end is reported once, and both are mails', async () => {
  // the least time between two messages has passed
  await live.pool.query(`update alert_messages set created_at = created_at - interval '10 minutes'`);
  await live.api.connect(ada.user, { account_id: ada.account.id });
  await waitFor(() => idsOfCalls().size === 2, { timeoutMs: 120_000, what: 'the end of the alert' });
  expect(calls.at(-1)?.message).toMatchObject({ opened: [], closed: [{ id: ada.account.id }] });
  const subjects = async () => {
    const uids = await box.uids('INBOX');
    const found = uids.length === 0 ? [] : await box.client.fetchAll(uids, { envelope: true }, { uid: true });
    return found.map(({ envelope }) => envelope?.subject).sort();
  };
  await waitFor(async () => (await subjects()).length === 2, { timeoutMs: 120_000, what: 'two mails' });
  expect(await subjects()).toEqual(['Email API: 1 new problem', 'Email API: 1 over']);
  await waitFor(async () => (await alerts()).channels.every(({ last }) => last?.sent_at), { what: 'the overview' });
  expect(await alerts()).toMatchObject({
    channels: [
      { channel: 'url', last: { error: null, text: expect.stringMatching(/^Over:\n- Mailbox .* is disconnected/) } },
      { channel: 'email', last: { error: null } },
    ],
    open: 0,
  });
  expect(calls).toHaveLength(3);
}, 300_000);
