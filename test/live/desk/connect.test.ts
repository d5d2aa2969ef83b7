import { beforeAll, expect, test } from '@jest/globals';
import type { HTTPRequest } from 'puppeteer-core';
import { waitFor } from '../../helpers/assert/wait.ts';
import { type Desk, deskTests, isCall, type Reply } from './desk.ts';

/** The connect page while answers are late or get lost, in a real browser: no password goes to another server than the shown one. */

const signedIn = deskTests();
let desk: Desk;
beforeAll(() => void (desk = signedIn()));

const errorOf = (status: number, type: string) => ({
  status,
  json: { object: 'Error', type: `errors/${type}`, title: 'Failed', detail: 'as the test says', status },
});
const server = (host: string) => ({ host, port: 993, encryption: 'SSL' });
const UNKNOWN = {
  ...{ object: 'MailServers', imap: null, smtp: null, hint: null, help_url: null },
  ...{ password_login: 'password', provider: null, sign_in: null },
};
const found = (domain: string) => ({ ...UNKNOWN, imap: server(`imap.${domain}`), smtp: server(`smtp.${domain}`) });

/** Opens the page of a new link, whose logins get `reply`. Returns them. */
async function openLink(reply: (index: number) => Reply = () => ({ status: 200, json: { redirect_url: null } })) {
  const link = await desk.api.call('POST', '/auth/links', { body: {} });
  const { pathname } = new URL(link.json<{ url: string }>().url);
  const logins = desk.answer(isCall('POST', pathname), reply);
  await desk.open(pathname);
  await desk.sees('asks to read and send mail');
  return { logins, pathname };
}

const credentialsIn = (login: HTTPRequest | undefined) =>
  (JSON.parse(login?.postData() ?? '{}') as { credentials?: object }).credentials;
const lookups = (reply: (index: number) => Reply) => desk.answer(isCall('GET', '/servers'), reply);
const hosts = () => desk.page.$$eval('.servers input:not([type=number])', (inputs) => inputs.map(({ value }) => value));

async function typeServers(imap: string, smtp: string): Promise<void> {
  const inputs = await desk.page.$$('.servers input:not([type=number])');
  await inputs[0]?.type(imap);
  await desk.page.keyboard.press('Tab');
  await inputs[1]?.evaluate((input) => (input as { select(): void }).select());
  await inputs[1]?.type(smtp);
}

test('says that the mailbox is connected after the response of its login was lost', async () => {
  lookups(() => ({ status: 200, json: found('firm.test') }));
  const { logins, pathname } = await openLink((index) => (index === 0 ? 'lost' : errorOf(404, 'not_found')));
  await desk.fill('Email address', 'ada@firm.test');
  await desk.fill('Password', 'correct horse');
  await desk.click('Connect mailbox', 'button');
  await desk.sees('The service cannot be reached');
  const open = await desk.page.evaluate(`fetch('${pathname}/link').then((response) => response.json())`);
  desk.answer(isCall('GET', '/link'), () => ({ status: 200, json: { ...(open as object), status: 'used' } }));
  await desk.click('Connect mailbox', 'button');
  await desk.sees('Your mailbox is connected');
  expect(logins).toHaveLength(2);
}, 60_000);

test('says so at once when the login is done by then', async () => {
  lookups(() => ({ status: 200, json: found('firm.test') }));
  const { pathname } = await openLink(() => 'lost');
  const open = await desk.page.evaluate(`fetch('${pathname}/link').then((response) => response.json())`);
  desk.answer(isCall('GET', '/link'), () => ({ status: 200, json: { ...(open as object), status: 'used' } }));
  await desk.fill('Email address', 'ada@firm.test');
  await desk.fill('Password', 'correct horse');
  await desk.click('Connect mailbox', 'button');
  await desk.sees('Your mailbox is connected');
}, 60_000);

test('a page that the browser has kept is read again when its owner comes back to it', async () => {
  await openLink();
  await desk.fill('Email address', 'ada@firm.test');
  const reloaded = desk.page.waitForNavigation();
  await desk.page.evaluate("dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }))");
  await reloaded;
  await desk.sees('asks to read and send mail');
}, 60_000);

test('a lookup that ends late leaves the servers that were typed', async () => {
  let end = () => {};
  const late = new Promise<void>((resolve) => (end = resolve));
  const asked = lookups(() => ({ status: 200, json: found('discovered.test'), after: late }));
  const { logins } = await openLink();
  await desk.fill('Email address', 'ada@firm.test');
  await desk.page.keyboard.press('Tab');
  await waitFor(() => asked.length === 1);
  await desk.click('More options', 'button');
  await typeServers('mail.own.test', 'out.own.test');
  end();
  await desk.page.waitForFunction("!document.body.innerText.includes('Looking up')");
  expect(await hosts()).toEqual(['mail.own.test', 'out.own.test']);
  await desk.fill('Password', 'correct horse');
  await desk.click('Connect mailbox', 'button');
  await desk.sees('Your mailbox is connected');
  expect(credentialsIn(logins[0])).toMatchObject({ imap: { host: 'mail.own.test' }, smtp: { host: 'out.own.test' } });
}, 60_000);

test('a corrected address keeps the servers that were typed, one of another domain does not', async () => {
  lookups(() => ({ status: 200, json: UNKNOWN }));
  const { logins } = await openLink(() => errorOf(422, 'invalid_credentials'));
  await desk.fill('Email address', 'adda@own.test');
  await desk.page.keyboard.press('Tab');
  await desk.page.waitForSelector('.servers');
  await typeServers('mail.own.test', 'out.own.test');
  await desk.fill('Password', 'correct horse');
  await desk.fill('Email address', 'ada@own.test');
  await desk.page.keyboard.press('Enter');
  await desk.sees('did not accept this address');
  expect(credentialsIn(logins[0])).toMatchObject({ user: 'ada@own.test', imap: { host: 'mail.own.test' } });
  await desk.fill('Email address', 'ada@other.test');
  await desk.page.keyboard.press('Enter');
  await desk.sees('The servers were not found');
  expect(await hosts()).toEqual(['', '']);
  expect(logins).toHaveLength(1);
}, 60_000);

test('the servers of the address before get no login with the new one, whose servers are looked up', async () => {
  const asked = lookups((index) => ({ status: 200, json: found(index === 0 ? 'firm.test' : 'other.test') }));
  const { logins } = await openLink(() => errorOf(422, 'invalid_credentials'));
  await desk.fill('Email address', 'ada@firm.test');
  await desk.page.keyboard.press('Tab');
  await waitFor(() => asked.length === 1);
  await desk.click('More options', 'button');
  await waitFor(async () => (await hosts())[0] === 'imap.firm.test', { what: 'the servers' });
  await desk.fill('Password', 'correct horse');
  await desk.fill('Email address', 'ada@other.test');
  await desk.page.keyboard.press('Enter');
  await desk.sees('did not accept this address');
  expect(credentialsIn(logins[0])).not.toHaveProperty('imap');
  expect(await hosts()).toEqual(['imap.other.test', 'smtp.other.test']);
}, 60_000);

test.each([
  [errorOf(404, 'not_found'), 'This link no longer works'],
  [errorOf(429, 'too_many_requests'), 'Too many attempts'],
  [errorOf(503, 'service_unavailable'), 'The service is not available just now'],
  ['lost' as const, 'The service cannot be reached'],
])(
  'a lookup that fails is no address with unknown servers: %j',
  async (reply, text) => {
    lookups(() => reply);
    const { logins } = await openLink();
    await desk.fill('Email address', 'ada@firm.test');
    await desk.fill('Password', 'correct horse');
    await desk.click('Connect mailbox', 'button');
    await desk.sees(text);
    expect(await desk.page.$('.servers')).toBeNull();
    expect(logins).toHaveLength(0);
  },
  60_000,
);
