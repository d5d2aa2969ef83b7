import { beforeAll, expect, test } from '@jest/globals';
import type { ElementHandle } from 'puppeteer-core';
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

const email = () => `/mailboxes/${desk.account}/emails/${desk.email}`;
const writeReply = async (text: string) => {
  await desk.open(email());
  await desk.click('Reply', 'button');
  await desk.fill('Text', text);
};
const REFUSED = {
  object: 'Error',
  type: 'errors/provider_rejected',
  title: 'Rejected',
  detail: 'the server refused the email',
  status: 422,
};
const SENT = { object: 'EmailSent', id: 'email_1', account_id: 'acc_1', rejected: [] };

test.each([
  ['closes', () => desk.click('Cancel', 'button')],
  ['presses Escape', () => desk.page.keyboard.press('Escape')],
])(
  'a send that fails after its user %s is reported, and sent again with the same text and files',
  async (_, leave) => {
    let refuse = () => {};
    const held = new Promise<void>((resolve) => (refuse = resolve));
    const sends = desk.answer(isCall('POST', '/emails/send'), (index) =>
      index === 0 ? { status: 422, json: REFUSED, after: held } : { status: 200, json: SENT },
    );
    await writeReply('A reply that took an hour');
    const files = await desk.page.waitForSelector('dialog input[type=file]');
    await (files as ElementHandle<never>).uploadFile('LICENSE');
    await desk.click('Send', 'button');
    await waitFor(() => sends.length === 1);
    await leave();
    await waitFor(async () => (await desk.page.$('dialog')) === null, { what: 'the form to close' });
    refuse();
    await desk.sees('Not sent: The server refused the email. “Reply” shows what you wrote again.');
    await desk.click('Reply', 'button');
    expect(await typed()).toBe('A reply that took an hour');
    expect(await desk.audit()).toEqual([]);
    await desk.picture('reply-again');
    await desk.click('Send', 'button');
    await waitFor(async () => (await desk.page.$('dialog')) === null, { what: 'the form to close' });
    expect(sends[1]?.postData()).toBe(sends[0]?.postData());
    await desk.click('Reply', 'button');
    expect(await typed()).toBe('');
  },
  60_000,
);

test('a form that is opened during its send waits for it, and closes when it is sent', async () => {
  let sent = () => {};
  const held = new Promise<void>((resolve) => (sent = resolve));
  const sends = desk.answer(isCall('POST', '/emails/send'), () => ({ status: 200, json: SENT, after: held }));
  await writeReply('At noon?');
  await desk.click('Send', 'button');
  await waitFor(() => sends.length === 1);
  await desk.click('Cancel', 'button');
  await desk.click('Reply', 'button');
  expect(await typed()).toBe('At noon?');
  await desk.page.waitForSelector('dialog button.main-action:disabled');
  sent();
  await desk.sees('Sent');
  await waitFor(async () => (await desk.page.$('dialog')) === null, { what: 'the form to close' });
  expect(sends).toHaveLength(1);
}, 60_000);

test('a reply whose outcome is not known is sent again as the same one, after its form was closed', async () => {
  const sends = desk.answer(isCall('POST', '/emails/send'), (index) =>
    index === 0 ? 'lost' : { status: 200, json: SENT },
  );
  await writeReply('Only once');
  await desk.click('Send', 'button');
  await desk.sees('It may have been done');
  await desk.click('Cancel', 'button');
  await desk.click('Reply', 'button');
  await desk.click('Send', 'button');
  await waitFor(() => sends.length === 2);
  const keys = sends.map((call) => call.headers()['idempotency-key']);
  expect(keys[0]).toBe(keys[1]);
}, 60_000);

test('a reply that is left in any way is shown again, and the browser asks before it reloads', async () => {
  await writeReply('Half a reply');
  await desk.page.keyboard.press('Escape');
  await desk.sees('Not sent. “Reply” shows what you wrote again.');
  await desk.click('Reply', 'button');
  expect(await typed()).toBe('Half a reply');
  // effects run after the page is drawn
  await waitFor(() => desk.page.evaluate(`!dispatchEvent(new Event('beforeunload', { cancelable: true }))`));
  const asked: string[] = [];
  desk.page.once('dialog', (dialog) => asked.push(dialog.type()));
  await desk.page.reload();
  expect(asked).toEqual(['beforeunload']);
  await desk.click('Conversation', 'link');
  await desk.click('Reply', 'button');
  expect(await typed()).toBe('Half a reply');
  await desk.page.goBack();
  await desk.click('Reply to all', 'button');
  expect(await typed()).toBe('');
  await desk.click('Cancel', 'button');
  await desk.click('Reply', 'button');
  await desk.click('Start again', 'button');
  expect(await typed()).toBe('');
  await desk.click('Cancel', 'button');
  await desk.click('Reply', 'button');
  expect(await typed()).toBe('');
}, 60_000);

test('a move to Trash that ends late leaves the reply open that was begun since', async () => {
  let moved = () => {};
  const held = new Promise<void>((resolve) => (moved = resolve));
  desk.answer(isCall('DELETE', desk.email), () => ({ status: 200, json: {}, after: held }));
  await desk.open(email());
  await desk.click('Trash', 'button');
  await desk.page.keyboard.press('r');
  await desk.fill('Text', 'Before it is gone');
  moved();
  await desk.sees('Moved to Trash');
  expect(await typed()).toBe('Before it is gone');
}, 60_000);

test('nothing of a reply is kept after a sign-out', async () => {
  await writeReply('Not for the next one');
  await desk.page.keyboard.press('Escape');
  await desk.click('Sign out', 'button');
  await desk.sees('With an API key');
  expect(await desk.page.evaluate('JSON.stringify({ ...sessionStorage })')).not.toContain('next one');
  await desk.signIn();
  await desk.click('Reply', 'button');
  expect(await typed()).toBe('');
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
  const shown = await desk.page.evaluate('document.body.innerHTML + JSON.stringify({ ...sessionStorage })');
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
