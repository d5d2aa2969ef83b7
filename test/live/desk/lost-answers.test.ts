import { beforeAll, expect, test } from '@jest/globals';
import { waitFor } from '../../helpers/assert/wait.ts';
import { type Desk, deskTests, isCall } from './desk.ts';

/** The dashboard while answers get lost, in a real browser: nothing is done twice. */

const signedIn = deskTests();
let desk: Desk;
beforeAll(() => void (desk = signedIn()));

const SENT = { object: 'EmailSent', id: 'email_1', account_id: 'acc_1', rejected: [] };
const FAILED = {
  object: 'Error',
  type: 'errors/service_unavailable',
  title: 'Unavailable',
  detail: 'later',
  status: 503,
};
const keysOf = (calls: { headers(): Record<string, string> }[]) =>
  calls.map((call) => call.headers()['idempotency-key'] ?? 'none');

test('an email whose answer is lost is sent again as the same one, and a changed one as another', async () => {
  const sends = desk.answer(isCall('POST', '/emails/send'), (index) =>
    index === 0 ? 'lost' : index < 3 ? { status: 503, json: FAILED } : { status: 200, json: SENT },
  );
  await desk.open(`/mailboxes/${desk.account}/emails/${desk.email}`);
  await desk.click('Reply', 'button');
  await desk.fill('Text', 'At noon?');
  await desk.click('Send', 'button');
  await desk.sees('It may have been done');
  await desk.click('Send', 'button');
  await desk.sees('Unavailable');
  await desk.fill('Text', 'At one?');
  await desk.click('Send', 'button');
  await waitFor(() => sends.length === 3);
  await desk.sees('Unavailable');
  await desk.click('Send', 'button');
  await waitFor(async () => (await desk.page.$('dialog')) === null, { what: 'the form to close' });
  const [first, second, third, fourth] = keysOf(sends);
  expect([first, third]).toEqual([second, fourth]);
  expect(first).toMatch(/^[0-9a-f]{32}$/);
  expect(third).not.toBe(first);
}, 60_000);

test('a refusal is not repeated from memory once its cause is gone', async () => {
  const refused = { object: 'Error', type: 'errors/not_found', title: 'Not found', detail: 'gone', status: 404 };
  const sends = desk.answer(isCall('POST', '/emails/send'), (index) =>
    index === 0 ? { status: 404, json: refused } : { status: 200, json: SENT },
  );
  await desk.open(`/mailboxes/${desk.account}`);
  await desk.click('Send a test mail', 'button');
  await desk.click('Send', 'button');
  await desk.sees('Not found');
  await desk.click('Send', 'button');
  await desk.sees('Sent to ada@example.test');
  const [first, second] = keysOf(sends);
  expect(second).not.toBe(first);
}, 60_000);

test('creates one key when the answer to the first press is lost', async () => {
  const calls = desk.answer(isCall('POST', '/api-keys'), (index) => (index === 0 ? 'unheard' : undefined));
  await desk.open('/keys');
  await desk.click('Create a key', 'button');
  await desk.fill('Name', 'Pressed twice');
  await desk.click('Create it', 'button');
  await desk.sees('It may have been done');
  await desk.click('Create it', 'button');
  await desk.sees('Copy it now');
  expect(new Set(keysOf(calls)).size).toBe(1);
  const { data } = await desk.api.get<{ data: { name: string }[] }>('/api-keys');
  expect(data.filter(({ name }) => name === 'Pressed twice')).toHaveLength(1);
}, 60_000);

test('what was pressed without a network is not sent later, after the form was closed', async () => {
  const sends = desk.answer(isCall('POST', '/emails/send'), () => 'lost');
  const changes = desk.answer(isCall('PATCH', desk.email), () => ({ status: 503, json: FAILED }));
  await desk.open(`/mailboxes/${desk.account}/emails/${desk.email}`);
  await desk.click('Reply', 'button');
  await desk.fill('Text', 'Never mind');
  await desk.page.setOfflineMode(true);
  await desk.click('Send', 'button');
  await desk.sees('It may have been done');
  await desk.click('Cancel', 'button');
  await desk.page.setOfflineMode(false);
  // what waited for the network would go out before this
  await desk.click('Star', 'button');
  await waitFor(() => changes.length === 1);
  expect(sends).toHaveLength(1);
}, 60_000);
