import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { waitFor } from '../../helpers/assert/wait.ts';
import { type Desk, isCall, openDesk } from '../../helpers/product/desk.ts';

/** What forms of the dashboard read from their fields, in a real browser. */

let desk: Desk;
beforeAll(async () => {
  desk = await openDesk();
  await desk.signIn();
  await desk.sees('What is wrong now');
}, 120_000);
afterAll(() => desk?.close());

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
