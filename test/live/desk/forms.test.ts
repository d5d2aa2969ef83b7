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

const SENT = { object: 'EmailSent', id: 'email_1', account_id: 'acc_1', rejected: [] };

test('a reply goes to the people it shows, whatever is in their names', async () => {
  const stored = await desk.api.get<object>(`/${desk.account}/emails/${desk.email}`);
  const people = [
    { display_name: 'Info @ Acme, Inc.', identifier: 'info@acme.com' },
    { display_name: 'ada@firm.com, Sales', identifier: 'real@x.com' },
    { display_name: 'The "Boss" \\ <boss@firm.com>', identifier: 'b@x.com' },
    { display_name: 'Ben', identifier: 'ben@x.com' },
    { display_name: '', identifier: 'plain@x.com' },
  ].map((one) => ({ identifier_type: 'EMAIL_ADDRESS', ...one }));
  const isEmail = isCall('GET', desk.email);
  desk.answer(
    (call) => call.url().includes('/api/v1/') && isEmail(call),
    () => ({ status: 200, json: { ...stored, reply_to_attendees: people } }),
  );
  const sends = desk.answer(isCall('POST', '/emails/send'), () => ({ status: 200, json: SENT }));
  await desk.open(`/mailboxes/${desk.account}/emails/${desk.email}`);
  await desk.click('Reply', 'button');
  await desk.fill(
    'Cc',
    '"Doe, Jane" <j@x.com>; Lovelace, Ada <a@x.com>,, 5" pipes <p@x.com>,"Solo" <s@x.com>, t@x.com;',
  );
  await desk.click('Send', 'button');
  await waitFor(() => sends.length === 1);
  expect(JSON.parse(sends[0]?.postData() ?? '')).toMatchObject({
    to: people.map(({ identifier, display_name }) => ({ email: identifier, ...(display_name && { display_name }) })),
    cc: [
      { email: 'j@x.com', display_name: 'Doe, Jane' },
      { email: 'a@x.com', display_name: 'Lovelace, Ada' },
      { email: 'p@x.com', display_name: '5" pipes' },
      { email: 's@x.com', display_name: 'Solo' },
      { email: 't@x.com' },
    ],
  });
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
