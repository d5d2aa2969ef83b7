import { beforeAll, expect, test } from '@jest/globals';
import { waitFor } from '../../helpers/assert/wait.ts';
import { type Desk, deskTests, isCall } from './desk.ts';

/** What forms of the dashboard read from their fields, in a real browser. */

const signedIn = deskTests();
let desk: Desk;
beforeAll(() => void (desk = signedIn()));

test('folders whose paths have commas stay one entry each', async () => {
  const before = await desk.api.get<object>(`/accounts/${desk.account}`);
  const folders = { include: ['INBOX', 'Clients, old'], exclude: ['Clients, old/Spam, too'] };
  desk.answer(isCall('GET', `/accounts/${desk.account}`), () => ({ status: 200, json: { ...before, folders } }));
  const saved = desk.answer(isCall('PATCH', `/accounts/${desk.account}`), () => ({ status: 200, json: before }));
  await desk.open(`/mailboxes/${desk.account}`);
  await desk.click('Choose folders', 'button');
  await desk.click('Save', 'button');
  await waitFor(() => saved.length === 1);
  expect(JSON.parse(saved[0]?.postData() ?? '')).toEqual({ folders });
}, 60_000);

test('the connect page says that a mailbox is connected, although a cancel has failed', async () => {
  const link = await desk.api.call('POST', '/auth/links', { body: { account_id: desk.account } });
  const { pathname } = new URL(link.json<{ url: string }>().url);
  const failed = {
    object: 'Error',
    type: 'errors/service_unavailable',
    title: 'Unavailable',
    detail: 'x',
    status: 503,
  };
  desk.answer(isCall('POST', '/cancel'), () => ({ status: 503, json: failed }));
  let connected = () => {};
  const after = new Promise<void>((resolve) => (connected = resolve));
  desk.answer(isCall('POST', pathname), () => ({ status: 200, json: { redirect_url: null }, after }));
  await desk.open(pathname);
  await desk.fill('Password', 'correct horse');
  await desk.click('Cancel', 'button');
  await desk.sees('That did not work');
  await desk.click('Connect mailbox', 'button');
  await waitFor(() => desk.page.$$eval('button.plain', (all) => all.some(({ disabled }) => disabled)), {
    what: 'the cancel of a login that is under way to be barred',
  });
  connected();
  await desk.sees('Your mailbox is connected');
}, 60_000);
