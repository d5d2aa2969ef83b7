import { beforeAll, expect, test } from '@jest/globals';
import { createApiKey } from '../../../src/db/access/api-keys.ts';
import { waitFor } from '../../helpers/assert/wait.ts';
import { type Desk, deskTests, isCall } from './desk.ts';
import { storeAccount } from '../../helpers/product/stored-account.ts';

/** What a user types in the dashboard stays where it is, whatever happens beside it, in a real browser. */

const signedIn = deskTests();
let desk: Desk;
beforeAll(() => void (desk = signedIn()));

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

/** Ends the session as its 12 hours do, and has the page learn it. */
const endSession = async () => {
  await desk.page.deleteCookie(...(await desk.page.cookies()));
  await desk.click('Send', 'button');
  await desk.sees('The session has ended');
};

test('the end of a session keeps what is typed, for the same person who signs in again', async () => {
  await desk.open(`/mailboxes/${desk.account}/emails/${desk.email}`);
  await desk.click('Reply', 'button');
  await desk.fill('Text', 'A long answer');
  await endSession();
  for (let press = 0; press < 9; press++) await desk.page.keyboard.press('Escape');
  expect(await desk.audit()).toEqual([]);
  await desk.picture('sign-in-again');
  await desk.signIn();
  await waitFor(async () => (await desk.page.$('dialog.over')) === null, { what: 'the sign-in to go' });
  expect(await typed()).toBe('A long answer');
  const sends = desk.answer(isCall('POST', '/emails/send'), () => ({ status: 503, json: {} }));
  await desk.click('Send', 'button');
  await waitFor(() => sends.length === 1);
}, 60_000);

test('an outage while the session is checked keeps what is typed', async () => {
  await desk.open(`/mailboxes/${desk.account}/emails/${desk.email}`);
  await desk.click('Reply', 'button');
  await desk.fill('Text', 'Another answer');
  let isAway = true;
  const checks = desk.answer(isCall('GET', '/session'), () => (isAway ? { status: 500, json: {} } : undefined));
  const refused = {
    object: 'Error',
    type: 'errors/unauthorized',
    title: 'Unauthorized',
    detail: 'expired',
    status: 401,
  };
  desk.answer(isCall('POST', '/emails/send'), () => (isAway ? { status: 401, json: refused } : undefined));
  await desk.click('Send', 'button');
  // the first check, and both repetitions
  await waitFor(() => checks.length === 3);
  await desk.sees('Unauthorized');
  isAway = false;
  expect(await typed()).toBe('Another answer');
}, 60_000);

test('another user who signs in after the end of a session gets nothing that the last one saw', async () => {
  const other = await storeAccount(desk.api.database);
  const { key } = await createApiKey(desk.api.database.db, { name: 'other', expiresAt: null, accountIds: [other] });
  await desk.open(`/mailboxes/${desk.account}/emails/${desk.email}`);
  await desk.click('Reply', 'button');
  await desk.fill('Text', 'Confidential');
  await endSession();
  await desk.signIn(key);
  await desk.sees('other');
  await desk.sees('Not found');
  const shown = await desk.page.evaluate('document.body.innerHTML');
  expect(shown).not.toMatch(/Lunch on Friday|Confidential/);
}, 60_000);

test('says so when the server could not sign out', async () => {
  const failed = {
    object: 'Error',
    type: 'errors/service_unavailable',
    title: 'Away',
    detail: 'in repair',
    status: 503,
  };
  desk.answer(isCall('DELETE', '/session'), (index) => (index === 0 ? { status: 503, json: failed } : undefined));
  await desk.open('/mailboxes');
  await desk.click('Sign out', 'button');
  await desk.sees('Not signed out: In repair.');
  await desk.click('Sign out', 'button');
  await desk.sees('With an API key');
}, 60_000);
