import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { Browser } from 'puppeteer-core';
import type { Permissions } from '../../../src/contract/api-key.ts';
import { startReceiver, type Receiver } from '../../helpers/fakes/receiver.ts';
import { type Browsing, browse, startBrowser } from '../../helpers/product/browser.ts';
import { faultsInLooks, LOCALES } from '../../helpers/assert/views.ts';
import { type ConnectedUser, connectUser, joinLive, type Live } from '../../helpers/product/live.ts';

/** The dashboard with keys that may not do everything: they get what they may use, and nothing that answers "Forbidden". */

let live: Live;
let browser: Browser;
let receiver: Receiver;
let owner: ConnectedUser;

beforeAll(async () => {
  live = await joinLive();
  [browser, owner, receiver] = await Promise.all([startBrowser(), connectUser(live), startReceiver()]);
  const other = await connectUser(live);
  await live.api.post('/webhooks/endpoints', { url: receiver.url, trigger_events: ['email.new'] });
  await owner.receive('INBOX', 'Seen by the limited key');
  await other.receive('INBOX', 'Hidden from the limited key');
}, 180_000);

afterAll(async () => {
  await browser?.close();
  await receiver?.close();
  await live?.close();
}, 60_000);

/** Statuses of the calls that a page made. */
function statusesOf({ page }: Browsing): string[] {
  const statuses: string[] = [];
  page.on('response', (response) => {
    if (response.url().includes('/api/')) statuses.push(`${response.status()} ${new URL(response.url()).pathname}`);
  });
  return statuses;
}

async function signIn(limits: { permissions?: Permissions; accounts?: string[] }, view = {}): Promise<Browsing> {
  const { api_key: key } = await live.api.post<{ api_key: string }>('/api-keys', { name: 'limited', ...limits });
  const desk = await browse(browser, live.api.base, view);
  await desk.open('/');
  await desk.fill('API key', key);
  await desk.click('Sign in', 'button');
  await desk.page.waitForSelector('nav[aria-label=Sections]');
  return desk;
}

const sectionsOf = ({ page }: Browsing) =>
  page.$$eval('nav[aria-label=Sections] a', (links) => links.map(({ textContent }) => textContent));
const buttonsOf = ({ page }: Browsing) =>
  page.$$eval('main button, main a.button, main input[type=checkbox]', (all) =>
    all.map((one) => one.textContent || one.getAttribute('aria-label')),
  );

test('a key of one mailbox begins with that mailbox, and has the sections that it may use', async () => {
  const { id } = owner.account;
  const desk = await signIn({ accounts: [id] });
  const statuses = statusesOf(desk);
  await desk.open('/');
  await desk.sees('The mailboxes that you may see.');
  await desk.sees(owner.user.user);
  await desk.sees('Deliveries whose last attempt failed');
  expect(await sectionsOf(desk)).toEqual(['Overview', 'Mailboxes', 'Deliveries', 'Events', 'Documents', 'Reference']);
  await desk.picture('limited-overview');
  await desk.open('/mailboxes');
  await desk.sees(owner.user.user);
  expect(await desk.page.$$eval('tbody tr', (rows) => rows.length)).toBe(1);
  expect(await buttonsOf(desk)).toEqual(['Mail of all mailboxes']);
  await desk.open(`/mailboxes/${id}`);
  await desk.sees('Seen by the limited key');
  expect(await buttonsOf(desk)).toEqual(expect.arrayContaining(['Send a test mail', 'Reconnect', 'Remove']));
  await desk.open('/deliveries');
  await desk.page.waitForSelector('tbody tr a');
  expect(await buttonsOf(desk)).toContain('All on this page');
  expect(await buttonsOf(desk)).not.toContain('Replay…');
  await desk.page.click('tbody tr a');
  await desk.sees('Payload');
  await desk.open(`/mailboxes/connect?account=${id}`);
  await desk.sees('With the new password');
  await desk.open('/events');
  await desk.sees('Live');
  for (const path of ['/keys', '/audit', '/settings', '/endpoints', '/mailboxes/links', '/mailboxes/apps']) {
    await desk.open(path);
    await desk.sees('This page needs another key');
  }
  await desk.open('/mailboxes/connect');
  await desk.sees('This page needs another key');
  await desk.picture('limited-closed');
  expect(statuses.filter((status) => !status.startsWith('200'))).toEqual([]);
  expect(desk.faults).toEqual([]);
  await desk.close();
}, 120_000);

test('a key that only reads sees every section, and no button that changes something', async () => {
  const desk = await signIn({ permissions: 'read' });
  const statuses = statusesOf(desk);
  const [endpoint] = (await live.api.get<{ data: { id: string }[] }>('/webhooks/endpoints')).data;
  const pages: [path: string, text: string][] = [
    ['/', 'What is wrong now'],
    ['/mailboxes', owner.user.user],
    [`/mailboxes/${owner.account.id}`, 'Seen by the limited key'],
    ['/deliveries', 'Answer'],
    ['/endpoints', receiver.url],
    [`/endpoints/${endpoint?.id ?? ''}`, 'Last hour'],
    ['/keys', 'Last used'],
    ['/mailboxes/links', 'Connect links'],
    ['/mailboxes/apps', 'OAuth apps'],
    ['/audit', 'Who'],
    ['/settings', 'WEBHOOK_TIMEOUT'],
  ];
  for (const [path, text] of pages) {
    await desk.open(path);
    await desk.sees(text);
    const shown = (await buttonsOf(desk)).filter((name) =>
      /create|connect a|send|remove|reconnect|replay|retry|revoke|rotate|delete|enable|disable|edit|all on this/i.test(
        name ?? '',
      ),
    );
    expect({ path, shown }).toEqual({ path, shown: [] });
  }
  await desk.picture('read-only-keys');
  await desk.open('/mailboxes/connect');
  await desk.sees('This page needs another key');
  expect(statuses.filter((status) => !status.startsWith('200'))).toEqual([]);
  await desk.click('Sign out', 'button');
  await desk.sees('With an API key.');
  await desk.close();
}, 120_000);

test.each(LOCALES)(
  'its first page is usable in the light, in the dark, on a narrow screen, and for a screen reader: %s',
  async (locale) => {
    const desk = await signIn({ accounts: [owner.account.id] }, { locale });
    for (const [page, path, text] of [
      ['limited', '/', owner.user.user],
      ['limited-keys', '/keys', 'This page needs another key'],
    ] as const) {
      await desk.open(path);
      await desk.sees(text);
      expect(await faultsInLooks(desk, page)).toEqual([]);
    }
    await desk.close();
  },
  60_000,
);
