import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { type Desk, isCall, openDesk } from '../../helpers/product/desk.ts';

/** What somebody types in the dashboard stays where it is, whatever happens beside it, in a real browser. */

let desk: Desk;
beforeAll(async () => {
  desk = await openDesk();
  await desk.signIn();
  await desk.sees('What is wrong now');
}, 120_000);
afterAll(() => desk?.close());

const typed = () => desk.page.$eval('dialog textarea', (field) => field.value);

test('a change of the email that ends late leaves the reply open that was begun since', async () => {
  const email = await desk.api.get<object>(`/${desk.account}/emails/${desk.email}`);
  let changed = () => {};
  const held = new Promise<void>((resolve) => (changed = resolve));
  desk.answer(isCall('PATCH', desk.email), () => ({ status: 200, json: { ...email, is_starred: true }, after: held }));
  await desk.open(`/mailboxes/${desk.account}/emails/${desk.email}`);
  await desk.click('Star', 'button');
  await desk.click('Reply', 'button');
  await desk.fill('Text', 'At noon?');
  changed();
  await desk.sees('Starred');
  expect(await typed()).toBe('At noon?');
}, 60_000);
