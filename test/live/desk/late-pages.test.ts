import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { Browser, HTTPRequest } from 'puppeteer-core';
import type { EventType } from '../../../src/contract/events.ts';
import type { WebhookEndpoint } from '../../../src/contract/webhook.ts';
import { recordEvents } from '../../../src/db/outbox.ts';
import { newId } from '../../../src/new-id.ts';
import { waitFor } from '../../helpers/assert/wait.ts';
import { emailOf } from '../../helpers/fakes/receiver.ts';
import { type Browsing, browse, startBrowser } from '../../helpers/product/browser.ts';
import { type ConnectedUser, connectUser, type OwnLive, startLive } from '../../helpers/product/live.ts';

/** Pages that were opened a while ago: forms that end late, what others changed, streams and sessions that ended. */

let live: OwnLive;
let browser: Browser;
let desk: Browsing;
let owner: ConnectedUser;
let email: string;

beforeAll(async () => {
  live = await startLive();
  [browser, owner] = await Promise.all([startBrowser(), connectUser(live)]);
  email = emailOf((await owner.receive('INBOX', 'A heliotrope order')).call).id;
  desk = await signedIn(live.api.key);
}, 180_000);

afterAll(async () => {
  await browser?.close();
  await live?.close();
}, 60_000);

async function signedIn(key: string): Promise<Browsing> {
  const visitor = await browse(browser, live.api.base);
  await visitor.open('/');
  await visitor.fill('API key', key);
  await visitor.click('Sign in', 'button');
  await visitor.sees('What is wrong now');
  return visitor;
}

const pathOf = (request: HTTPRequest) => new URL(request.url()).pathname;
const row = (text: string) => desk.page.waitForSelector(`tbody ::-p-text(${text})`, { visible: true });
const titles = () => desk.page.$$eval('dialog[open] h2', (heads) => heads.map(({ textContent }) => textContent));

/** Holds the next call of a path back; `made`: waits for it. */
async function holdCall({ page }: Browsing, method: string, path: RegExp) {
  await page.setRequestInterception(true);
  let held: HTTPRequest | undefined;
  const look = (request: HTTPRequest) => {
    if (held === undefined && request.method() === method && path.test(pathOf(request))) held = request;
    else void request.continue();
  };
  page.on('request', look);
  return {
    made: () => waitFor(() => held !== undefined, { what: 'the call' }),
    release: async () => {
      await held?.continue();
      page.off('request', look);
      await page.setRequestInterception(false);
    },
  };
}

/** As when another tab is chosen, and this one again. */
const hide = (isHidden: boolean) =>
  desk.page.evaluate(
    `Object.defineProperty(document, 'hidden', { value: ${isHidden}, configurable: true });
     document.dispatchEvent(new Event('visibilitychange'));`,
  );

const record = (objectId: string, type: EventType, times: Date[]) =>
  live.product.database.database.db.transaction((tx) =>
    recordEvents(
      tx,
      owner.account.id,
      times.map((createdAt) => ({ type, objectId, data: {}, createdAt })),
    ),
  );

test('an edited endpoint keeps what others change, a removed mailbox, and events that the page does not know', async () => {
  const made = await live.api.post<WebhookEndpoint>('/webhooks/endpoints', {
    url: 'https://93.184.215.14/hook',
    description: 'Shipping',
    trigger_events: ['email.new'],
    enabled: false,
  });
  const path = `/webhooks/endpoints/${made.id}`;
  const removed = newId('account');
  await live.pool.query('update webhook_endpoints set account_ids = $2, trigger_events = $3 where id = $1', [
    made.id,
    [removed],
    ['email.new', 'email.later'],
  ]);
  const bodies: unknown[] = [];
  desk.page.on('request', (request) => {
    if (request.method() === 'PATCH') bodies.push(JSON.parse(request.postData() ?? ''));
  });
  await desk.open(`/endpoints/${made.id}`);
  await desk.click('Edit', 'button');
  await desk.sees(`Removed mailbox …${removed.slice(-6)}`);
  await live.api.patch(path, { headers: [{ name: 'X-Other', value: '1' }] });
  await desk.sees('X-Other');
  await desk.fill('Description', 'Shipping of Ada');
  await desk.click('Save', 'button');
  const saved = () => live.api.get<WebhookEndpoint>(path);
  await waitFor(async () => (await saved()).description === 'Shipping of Ada', { what: 'the change' });
  expect(await saved()).toMatchObject({ account_ids: [removed], headers: [{ name: 'X-Other', value: '1' }] });
  await waitFor(async () => (await titles()).length === 0, { what: 'the form to close' });

  await desk.click('Edit', 'button');
  await desk.click('email.update', 'checkbox');
  await desk.click('Save', 'button');
  await waitFor(() => bodies.length === 2, { what: 'the second change' });
  expect(bodies).toEqual([
    { description: 'Shipping of Ada' },
    { trigger_events: ['email.new', 'email.update', 'email.later'] },
  ]);
}, 90_000);

test('a mailbox says since when it is in its state, and an email all that happened to it', async () => {
  const minutes = (count: number, until: number) =>
    Array.from({ length: count }, (_, n) => new Date(until - (count - n) * 60_000));
  const times = minutes(60, Date.now());
  await record(owner.account.id, 'account.status.running', times);
  await desk.open(`/mailboxes/${owner.account.id}`);
  const since = () =>
    desk.page.$$eval('[aria-label="State"] dd:first-of-type time', ([time]) => time?.getAttribute('datetime'));
  await waitFor(async () => (await since()) === times.at(-1)?.toISOString(), { what: 'the last change' });
  const later = new Date();
  await record(owner.account.id, 'account.status.running', [later]);
  await waitFor(async () => (await since()) === later.toISOString(), { what: 'a later change', timeoutMs: 40_000 });

  await record(email, 'email.update', minutes(60, Date.now()));
  await desk.open(`/mailboxes/${owner.account.id}/emails/${email}`);
  const changes = () =>
    desk.page.$$eval(
      '.timeline li',
      (all) => all.filter(({ textContent }) => textContent?.startsWith('Changed')).length,
    );
  await desk.click('More', 'button');
  await waitFor(async () => (await changes()) === 60, { what: 'the whole history' });
  expect(await desk.page.$$('::-p-aria([name="More"][role="button"])')).toEqual([]);
}, 120_000);

test('a form that ends late closes no other form', async () => {
  await desk.open(`/mailboxes/${owner.account.id}`);
  await desk.click('Send a test mail', 'button');
  const send = await holdCall(desk, 'POST', /\/emails\/send$/);
  await desk.click('Send', 'button');
  await send.made();
  await desk.page.keyboard.press('Escape');
  await waitFor(async () => (await titles()).length === 0, { what: 'the form to close' });
  await desk.click('Remove', 'button');
  await waitFor(async () => (await titles()).length === 1, { what: 'the other form' });
  await send.release();
  await desk.sees('Sent to');
  expect(await titles()).toEqual([`Remove ${owner.account.name}?`]);
  await desk.page.keyboard.press('Escape');
}, 60_000);

test('a form stays open until it has shown what is shown once', async () => {
  await desk.open('/keys');
  await desk.click('Create a key', 'button');
  await desk.fill('Name', 'Shown all the same');
  const create = await holdCall(desk, 'POST', /\/api-keys$/);
  await desk.click('Create it', 'button');
  await create.made();
  for (let n = 0; n < 3; n++) await desk.page.keyboard.press('Escape');
  const enabled = await desk.page.$$eval('dialog[open] button:enabled', (all) =>
    all.map(({ textContent }) => textContent),
  );
  expect([await titles(), enabled]).toEqual([['Create a key'], []]);
  await create.release();
  await desk.sees('Copy it now');
  await desk.click('I have copied it', 'button');
}, 60_000);

test('a hidden page closes its event stream, and lists what it missed', async () => {
  await desk.open('/events');
  await desk.sees('Live');
  await hide(true);
  await desk.sees('Connecting …');
  await owner.receive('INBOX', 'Missed while hidden');
  await hide(false);
  await desk.sees('Live');
  await row('Missed while hidden');
}, 60_000);

test('a changed filter of the events misses none that are stored before its stream begins', async () => {
  await desk.open('/events');
  await desk.sees('Live');
  const stream = await holdCall(desk, 'GET', /\/events\/stream$/);
  await desk.choose('Type', 'email.new');
  await stream.made();
  await row('A heliotrope order');
  await owner.receive('INBOX', 'Stored in between');
  await stream.release();
  await row('Stored in between');
}, 60_000);

test('a paused list of events stays as it is when its stream reconnects', async () => {
  await desk.open('/events');
  await desk.sees('Live');
  await desk.click('Pause', 'button');
  const loaded: string[] = [];
  desk.page.on('request', (request) => {
    const { pathname, searchParams } = new URL(request.url());
    if (pathname === '/api/v1/webhooks/events' && !searchParams.has('cursor')) loaded.push(request.url());
  });
  await hide(true);
  await owner.receive('INBOX', 'Stored while paused');
  const connected = desk.page.waitForResponse((response) => response.url().includes('/events/stream'));
  await hide(false);
  await connected;
  await owner.receive('INBOX', 'Streamed while paused');
  expect(loaded).toEqual([]);
  expect(await desk.page.$eval('tbody', (rows) => rows.textContent)).not.toContain('while paused');
  await desk.click('Resume', 'button');
  await row('Stored while paused');
  await row('Streamed while paused');
}, 60_000);

test('the page of the events asks for a sign-in when its session ends, and continues', async () => {
  const { api_key: key, id } = await live.api.post<{ api_key: string; id: string }>('/api-keys', {
    name: 'Ends while it looks',
    permissions: 'full',
  });
  const visitor = await signedIn(key);
  await visitor.open('/events');
  await visitor.sees('Live');
  await live.api.request('DELETE', `/api-keys/${id}`);
  await visitor.sees('With an API key');
  await visitor.fill('API key', live.api.key);
  await visitor.click('Sign in', 'button');
  await visitor.sees('Live');
  await visitor.close();
}, 90_000);

test('a page that cannot be refreshed says so beside what it shows', async () => {
  const { data } = await live.api.get<{ data: { id: string }[] }>('/webhooks/conversations');
  const endpoints = await live.api.get<{ data: { id: string }[] }>('/webhooks/endpoints');
  const paths = [`/deliveries/${data[0]?.id}`, `/endpoints/${endpoints.data[0]?.id}`, `/mailboxes/${owner.account.id}`];
  for (const path of paths) {
    await desk.open(path);
    await desk.page.waitForSelector('.facts');
    await desk.page.setOfflineMode(true);
    await desk.sees('Not reachable');
    expect(await desk.page.$$('.facts')).not.toEqual([]);
    await desk.page.setOfflineMode(false);
    await desk.page.waitForSelector('::-p-text(Not reachable)', { hidden: true });
  }
}, 120_000);
