import { createServer, type Server } from 'node:http';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { Browser } from 'puppeteer-core';
import type { Account } from '../../../src/contract/account.ts';
import type { WebhookEndpoint } from '../../../src/contract/webhook.ts';
import { type Browsing, browse, startBrowser, typeServers } from '../../helpers/product/browser.ts';
import { faultsInLooks, LOCALES } from '../../helpers/assert/views.ts';
import { startAuthServer } from '../../helpers/servers/auth-server.ts';
import { listenOnFreePort } from '../../helpers/servers/free-port.ts';
import { type OwnLive, startLive } from '../../helpers/product/live.ts';
import { addUser, type MailUser } from '../../helpers/product/mail-user.ts';
import { type Mailbox, openMailbox } from '../../helpers/product/mailbox.ts';
import { startReceiver, type Receiver } from '../../helpers/fakes/receiver.ts';
import { waitFor } from '../../helpers/assert/wait.ts';

/** The dashboard in a real browser, on the product as it is built. SCREENSHOTS=<folder> leaves pictures of it there. */

let live: OwnLive;
let browser: Browser;
let desk: Browsing;
let user: MailUser;
let box: Mailbox;
let receiver: Receiver;
/** what the remote picture of an email is loaded from */
let pixels: Server;
let pixelHits = 0;
let pixelUrl: string;

beforeAll(async () => {
  live = await startLive({ WEBHOOK_RETRY_SCHEDULE: '200ms,400ms' });
  [browser, user, receiver] = await Promise.all([startBrowser(), addUser(), startReceiver()]);
  box = await openMailbox(user);
  pixels = createServer((_request, response) => {
    pixelHits += 1;
    response
      .setHeader('Content-Type', 'image/gif')
      .end(Buffer.from('R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7', 'base64'));
  });
  pixelUrl = `http://127.0.0.1:${await listenOnFreePort(pixels)}/pixel.gif`;
  desk = await browse(browser, live.api.base);
}, 180_000);

afterAll(async () => {
  await browser?.close();
  await box?.close();
  await receiver?.close();
  pixels?.close();
  await live?.close();
}, 60_000);

/** Faults of a page, without requests that the policy refuses to an email in its frame, as intended. */
const faultsOf = ({ faults }: Browsing) =>
  faults.filter((fault) => !fault.includes(new URL(pixelUrl).host) && !fault.includes("'x:'"));
const path = () => new URL(desk.page.url()).pathname;
const at = (where: RegExp) =>
  waitFor(() => where.test(path()), { what: () => `${String(where)} instead of ${path()}` });

test('is entered with an API key, which is in no cookie and no storage', async () => {
  await desk.open('/mailboxes');
  await desk.fill('API key', 'not-a-key-that-exists');
  await desk.click('Sign in', 'button');
  await desk.sees('not a valid key');
  await desk.picture('sign-in');
  await desk.fill('API key', live.api.key);
  await desk.click('Sign in', 'button');
  await desk.sees('No mailbox is connected yet');
  await desk.sees('Version ');
  const stored = await desk.page.evaluate('document.cookie + JSON.stringify({ ...localStorage, ...sessionStorage })');
  expect(stored).not.toContain(live.api.key);
  const cookies = await desk.page.browserContext().cookies();
  expect(cookies).toMatchObject([{ httpOnly: true, sameSite: 'Strict' }]);
  expect(JSON.stringify(cookies)).not.toContain(live.api.key);
}, 60_000);

test('connects a mailbox with entered servers, after a wrong password, quoting the server', async () => {
  await desk.click('Connect a mailbox', 'link');
  await desk.fill('Email address', user.user);
  await desk.fill('Password', 'wrong');
  await desk.sees('please type them in below');
  await typeServers(desk, [user.imapPort, user.submissionPort]);
  await desk.click('Connect mailbox', 'button');
  await desk.sees('The server says');
  await desk.picture('connect-refused');
  await desk.fill('Password', user.password);
  await desk.click('Connect mailbox', 'button');
  await at(/\/mailboxes\/acc_/);
  await desk.sees('No mail yet');
  await desk.sees('running');
}, 90_000);

test('shows a mail that arrives, and opens it: its script and its remote picture do nothing', async () => {
  await box.append('INBOX', {
    subject: 'A message with a script',
    to: user.user,
    html:
      `<p id="text">Good morning</p><img src="${pixelUrl}"><script>document.body.textContent = 'scripted'</script>` +
      `<img src="x:" onerror="parent.document.title='scripted'"><iframe src="${pixelUrl}"></iframe>` +
      `<link rel="stylesheet" href="${pixelUrl}"><meta http-equiv="refresh" content="0;url=${pixelUrl}">`,
  });
  await desk.sees('A message with a script');
  await desk.picture('mailbox');
  await desk.page.locator('.emails a').click();
  await desk.sees('Remote images are blocked');
  const frameText = () =>
    waitFor(
      async () => {
        const frame = desk.page.frames().find((one) => one.url().includes('/view'));
        return frame?.evaluate('document.body?.textContent ?? ""').catch(() => undefined);
      },
      { what: 'the email in its frame' },
    );
  expect(await frameText()).toContain('Good morning');
  expect(await desk.page.title()).toContain('A message with a script');
  await desk.sees('What happened to it');
  await desk.sees('Arrived');
  expect(pixelHits).toBe(0);
  await desk.picture('email');

  await desk.click('Show remote images', 'button');
  await waitFor(() => pixelHits === 1, { what: 'the picture that was asked for' });
}, 60_000);

test('sees deliveries fail, and replays them once the endpoint is repaired', async () => {
  await desk.open('/endpoints');
  await desk.click('Create an endpoint', 'button');
  await desk.fill('URL', receiver.url);
  await desk.fill('Description', 'Orders');
  await desk.picture('endpoint-create');
  await desk.click('Create it', 'button');
  await at(/\/endpoints\/we_/);
  const endpoint = path().split('/').at(-1) ?? '';
  receiver.answer = () => 503;
  await box.append('INBOX', { subject: 'First order', to: user.user, text: 'one' });
  await box.append('INBOX', { subject: 'Second order', to: user.user, text: 'two' });
  await desk.sees('Deliveries are failing');
  await desk.sees('0 % of 6 attempts succeeded');
  await desk.picture('endpoint-failing');
  await desk.click('Failed attempts', 'link');
  await waitFor(async () => (await desk.page.$$('tbody tr')).length === 2, { what: 'two whose last attempt failed' });
  await desk.open(`/deliveries?endpoint=${endpoint}&status=failed`);
  await waitFor(async () => (await desk.page.$$('tbody tr')).length === 2, {
    what: 'two failed deliveries',
    timeoutMs: 30_000,
  });
  await desk.picture('deliveries-failed');

  receiver.answer = () => 200;
  await desk.click('Replay…', 'button');
  await desk.sees('Sends 2 deliveries to Orders again');
  await desk.picture('replay-dialog');
  await desk.click('Begin the replay', 'button');
  await at(/\/replays\/rpl_/);
  await desk.sees('2 of 2 made');
  await desk.picture('replay');
  expect(receiver.accepted({ types: ['email.new'] })).toHaveLength(2);
  await desk.open(`/deliveries?endpoint=${endpoint}&status=delivered`);
  await waitFor(async () => (await desk.page.$$('tbody tr')).length === 2, {
    what: 'two delivered',
    timeoutMs: 30_000,
  });
  await desk.page.click('tbody tr a');
  await desk.sees('Attempts');
  await desk.sees('Payload');
  await desk.picture('delivery');
}, 120_000);

test('changes what an endpoint gets', async () => {
  await desk.open('/endpoints');
  await desk.click('Orders', 'link');
  await desk.click('Edit', 'button');
  await desk.fill('Description', 'Orders of Ada');
  await desk.fill('Headers', 'X-Desk: 7');
  await desk.picture('endpoint-edit');
  await desk.click('Save', 'button');
  const saved = async () =>
    (await live.api.get<{ data: WebhookEndpoint[] }>('/webhooks/endpoints')).data.find(
      ({ url }) => url === receiver.url,
    );
  await waitFor(async () => (await saved())?.description !== 'Orders', { what: 'the change to be saved' });
  await desk.sees('X-Desk');
  expect(await saved()).toMatchObject({
    description: 'Orders of Ada',
    headers: [{ name: 'X-Desk', value: '7' }],
    account_ids: [],
  });
}, 60_000);

test('shows folders of one name below their parents, and finds them', async () => {
  const years = ['2024', '2025'];
  for (const year of years) for (let n = 1; n <= 9; n++) await box.createFolder(`Clients/${year}/Case ${n}`);
  const { data } = await live.api.get<{ data: { id: string }[] }>('/accounts');
  await desk.open(`/mailboxes/${data[0]?.id}`);
  await desk.fill('Find a folder', '2025 / case 3');
  await desk.sees('Case 3');
  await desk.sees('Clients / 2025');
  await desk.picture('folders-found');
  await desk.open(`/mailboxes/${data[0]?.id}`);
  await desk.click('Folders in Clients / 2024', 'button');
  await desk.picture('folders');
  const titles = () => desk.page.$$eval('.folders a[title]', (links) => links.map((link) => link.title));
  await waitFor(async () => !(await titles()).includes('Clients / 2024 / Case 1'), { what: 'the folders to fold' });
  expect(await titles()).toContain('Clients / 2025 / Case 1');
}, 90_000);

test('chooses which folders are stored', async () => {
  await desk.click('Choose folders', 'button');
  await desk.fill('None of these', 'SPAM\nClients');
  await desk.picture('folder-choice');
  await desk.click('Save', 'button');
  await desk.sees('all, except SPAM, Clients');
  const links = () => desk.page.$$eval('.folders a[title]', (all) => all.map(({ title }) => title).join());
  await waitFor(async () => !(await links()).includes('Clients'), { timeoutMs: 30_000, what: 'the folders to leave' });
}, 60_000);

test('stops following a mailbox, syncs it when asked, and follows it again', async () => {
  await desk.click('Stop following', 'button');
  await desk.sees('only when asked');
  await desk.picture('not-followed');
  const { data } = await live.api.get<{ data: Account[] }>('/accounts');
  const path = `/accounts/${data[0]?.id}`;
  const { last_synced_at: before } = await live.api.get<Account>(path);
  await desk.click('Sync now', 'button');
  await desk.sees('The mailbox is in sync');
  expect((await live.api.get<Account>(path)).last_synced_at).not.toBe(before);
  await desk.click('Follow it', 'button');
  await desk.sees('all the time');
}, 60_000);

test('shows events as they happen', async () => {
  await desk.open('/events');
  await desk.sees('Live');
  await box.append('INBOX', { subject: 'Seen in the tail', to: user.user, text: 'three' });
  await desk.sees('Seen in the tail');
  await desk.picture('events');
}, 60_000);

test('creates a key that is shown once, and revokes it: its sessions end too', async () => {
  await desk.open('/keys');
  await desk.click('Create a key', 'button');
  await desk.fill('Name', 'Made in a browser');
  await desk.click('Create it', 'button');
  await desk.sees('Copy it now');
  await desk.picture('key-shown');
  const key = await desk.page.$eval('dialog code', (element) => element.textContent ?? '');
  await desk.click('I have copied it', 'button');
  const other = await browse(browser, live.api.base);
  await other.open('/');
  await other.fill('API key', key);
  await other.click('Sign in', 'button');
  await other.sees('What is wrong now');

  await desk.sees('Made in a browser');
  await desk.picture('keys');
  expect(await desk.page.content()).not.toContain(key);
  await desk.click('Revoke Made in a browser', 'button');
  await desk.click('Revoke it', 'button');
  await other.sees('With an API key');
  await other.close();
}, 60_000);

test('limits a key to reading one mailbox, and the audit log says who did what', async () => {
  await desk.open('/keys');
  await desk.click('Create a key', 'button');
  await desk.fill('Name', 'Reads one mailbox');
  await desk.choose('May do', 'read');
  await desk.choose('Mailboxes', 'some');
  await desk.fill('Find a mailbox', user.user.slice(0, 12));
  const box = await desk.page.waitForSelector('dialog .checks input');
  await box?.click();
  await desk.sees('1 picked');
  await desk.picture('key-limited');
  await desk.click('Create it', 'button');
  const shown = await desk.page.waitForSelector('dialog .secret code');
  const key = (await shown?.evaluate(({ textContent }) => textContent)) ?? '';
  await desk.click('I have copied it', 'button');
  await desk.sees('read only');
  await desk.click('1 mailbox of Reads one mailbox', 'button');
  await desk.sees('For this key there are no others');
  await desk.page.waitForSelector(`dialog a[href*="acc_"]`);
  await desk.page.keyboard.press('Escape');
  const { status } = await fetch(`${live.api.base}/api/v1/overview`, { headers: { 'X-API-KEY': key } });
  expect(status).toBe(403);

  await desk.click('Audit', 'link');
  await desk.sees('refused 401');
  await desk.choose('Action', 'api_key.create');
  await waitFor(async () => (await desk.page.$$('tbody tr')).length === 2, { what: 'the two keys that were made' });
  expect(new URL(desk.page.url()).search).toBe('?action=api_key.create');
  await desk.sees('Reads one mailbox');
  await desk.picture('audit');
}, 60_000);

test('lists the links that wait for their owner, and revokes one', async () => {
  await desk.open('/mailboxes');
  await desk.click('Connect links', 'link');
  await desk.sees('No link is waiting for its owner');
  await desk.picture('links-empty');
  await desk.click('Create a link', 'button');
  await desk.fill('Name of the mailbox', 'Office of Ada');
  await desk.fill('Your reference', 'customer 7');
  await desk.fill('Sent back to', 'https://app.example/connected');
  await desk.click('Create it', 'button');
  const shown = await desk.page.waitForSelector('dialog .secret code');
  const url = (await shown?.evaluate(({ textContent }) => textContent)) ?? '';
  await desk.click('I have copied it', 'button');
  await desk.sees('Office of Ada');
  await desk.picture('links');
  expect((await fetch(`${url}/link`)).status).toBe(200);
  await desk.click('Revoke Office of Ada', 'button');
  await desk.click('Revoke it', 'button');
  await desk.sees('No link is waiting for its owner');
  expect((await fetch(`${url}/link`)).status).toBe(404);
}, 60_000);

test('creates an OAuth app with its redirect address to copy, verifies, changes and deletes it', async () => {
  const auth = await startAuthServer();
  await desk.open('/mailboxes');
  await desk.click('OAuth apps', 'link');
  await desk.sees('No OAuth apps yet');
  await desk.click('Create an app', 'button');
  const guide = () => desk.page.$eval('dialog a', (link) => link.getAttribute('href'));
  expect(await guide()).toMatch(/docs\/oauth\/microsoft$/);
  await desk.page.select('dialog select', 'google');
  await waitFor(async () => (await guide())?.endsWith('docs/oauth/google'), { what: 'the guide of Google' });
  await desk.page.select('dialog select', 'custom');
  await desk.fill('Name', 'CRM sign-in');
  await desk.fill('Client id', auth.clientId);
  await desk.fill('Client secret', 'a wrong one');
  await desk.fill('Scope', 'openid email offline_access');
  await desk.fill('Issuer', auth.issuer);
  await desk.fill('Mail servers', '127.0.0.1');
  await desk.click('Create it', 'button');
  await desk.sees('Register this redirect address');
  await desk.sees('/connect/oauth/callback');
  await desk.picture('oauth-app');
  await desk.click('Done', 'button');
  await desk.click('Verify CRM sign-in', 'button');
  await desk.sees('Client id and secret: wrong');
  await desk.click('Done', 'button');
  await desk.click('Change CRM sign-in', 'button');
  await desk.fill('Client secret', auth.clientSecret);
  await desk.click('Save', 'button');
  await waitFor(async () => (await desk.page.$('dialog')) === null, { what: 'the change' });
  await desk.click('Verify CRM sign-in', 'button');
  await desk.sees('Client id and secret: ok');
  await desk.click('Done', 'button');
  await desk.click('Delete CRM sign-in', 'button');
  await desk.click('Delete it', 'button');
  await desk.sees('No OAuth apps yet');
  await auth.close();
}, 90_000);

test('is usable in the light, in the dark and on a phone, in three locales, also from right to left', async () => {
  const [{ id: account } = { id: '' }] = (await live.api.get<{ data: { id: string }[] }>('/accounts')).data;
  await box.append('INBOX', { subject: 'طلب جديد رقم ٧', from: 'سارة المنصور <sara@example.test>', to: user.user });
  const [delivery] = (await live.api.get<{ data: { id: string }[] }>('/webhooks/conversations')).data;
  const [endpoint] = (await live.api.get<{ data: { id: string }[] }>('/webhooks/endpoints')).data;
  const [replay] = (await live.api.get<{ data: { id: string }[] }>('/webhooks/replays')).data;
  await live.api.post('/auth/links', { name: 'Office of Ben', state: 'customer 8' });
  await live.api.post('/oauth/apps', { provider: 'microsoft', name: 'Mail of customers', client_id: 'c0ffee' });
  const email = await waitFor(async () => (await live.api.emails(account)).data.find((one) => /طلب/.test(one.subject)));
  const pages: [string, string, string][] = [
    ['overview', '/', 'What is wrong now'],
    ['mailboxes', '/mailboxes', user.user],
    ['connect', '/mailboxes/connect', 'Create a link'],
    ['mailbox', `/mailboxes/${account}`, 'طلب جديد'],
    ['email', `/mailboxes/${account}/emails/${email.id}`, 'What happened to it'],
    ['conversation', `/mailboxes/${account}/threads/${email.thread_id}`, email.subject],
    ['search', '/mailboxes/search?q=order', 'First order'],
    ['deliveries', '/deliveries', 'Every event, to every endpoint'],
    ['delivery', `/deliveries/${delivery?.id ?? ''}`, 'Attempts'],
    ['replay', `/replays/${replay?.id ?? ''}`, '2 of 2 made'],
    ['endpoints', '/endpoints', 'Orders'],
    ['endpoint', `/endpoints/${endpoint?.id ?? ''}`, 'Last hour'],
    ['events', '/events', 'Live'],
    ['keys', '/keys', 'Who may call the API'],
    ['people', '/keys/people', 'No people yet'],
    ['links', '/mailboxes/links?status=all', 'Office of Ben'],
    ['oauth apps', '/mailboxes/apps', 'Mail of customers'],
    ['audit', '/audit', 'refused 401'],
    ['nothing', '/audit?object=acc_none', 'No record fits'],
    ['settings', '/settings', 'WEBHOOK_TIMEOUT'],
    ['no page', '/settings/none', 'Page not found'],
  ];
  const found = await Promise.all(
    LOCALES.map(async (locale) => {
      const visitor = await browse(browser, live.api.base, { locale });
      await visitor.open('/');
      await visitor.sees('API key');
      const faults = await faultsInLooks(visitor, 'sign-in');
      await visitor.fill('API key', live.api.key);
      await visitor.click('Sign in', 'button');
      await visitor.sees('What is wrong now');
      for (const [page, to, text] of pages) {
        await visitor.open(to);
        await visitor.sees(text);
        if (page === 'overview') await visitor.page.waitForSelector('.uplot');
        faults.push(...(await faultsInLooks(visitor, page)));
      }
      await visitor.close();
      return [...faults, ...faultsOf(visitor)];
    }),
  );
  expect(found.flat()).toEqual([]);
  expect(faultsOf(desk)).toEqual([]);
}, 400_000);

test('can be used with the keyboard alone', async () => {
  await desk.open('/');
  await desk.sees('What is wrong now');
  await desk.page.keyboard.press('Tab');
  expect(await desk.page.evaluate('document.activeElement?.textContent')).toBe('Skip to the content');
  await desk.page.keyboard.press('Enter');
  expect(await desk.page.evaluate('document.activeElement?.id')).toBe('content');
  await desk.open('/keys');
  await desk.click('Create a key', 'button');
  await desk.sees('Who uses it');
  await desk.page.keyboard.press('Escape');
  await desk.page.waitForSelector('dialog', { hidden: true });
}, 30_000);

test('has a first page of 150 KB at most, in which nothing moves', async () => {
  const visitor = await browse(browser, live.api.base);
  const client = await visitor.page.createCDPSession();
  await client.send('Network.enable');
  let bytes = 0;
  client.on('Network.loadingFinished', ({ encodedDataLength }) => (bytes += encodedDataLength));
  await visitor.page.evaluateOnNewDocument(`
    globalThis.shifts = [];
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries()) shifts.push(entry.value);
    }).observe({ type: 'layout-shift', buffered: true });
  `);
  await visitor.open('/');
  await visitor.fill('API key', live.api.key);
  await visitor.click('Sign in', 'button');
  await visitor.page.waitForSelector('.uplot');
  await visitor.sees('What is wrong now');
  expect(bytes).toBeGreaterThan(20_000);
  expect(bytes).toBeLessThan(150_000);
  const shifts = (await visitor.page.evaluate('shifts')) as number[];
  expect(shifts.reduce((sum, shift) => sum + shift, 0)).toBeLessThan(0.1);
  await visitor.close();
}, 60_000);
