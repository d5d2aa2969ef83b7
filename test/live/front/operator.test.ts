import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { Browser } from 'puppeteer-core';
import type { EventEnvelope } from '../../../src/contract/events.ts';
import { waitFor } from '../../helpers/assert/wait.ts';
import { emailOf } from '../../helpers/fakes/receiver.ts';
import { type Browsing, browse, startBrowser } from '../../helpers/product/browser.ts';
import { type ConnectedUser, connectUser, type OwnLive, startLive } from '../../helpers/product/live.ts';

/** The pages of an operator, in a real browser. SCREENSHOTS=<folder> leaves pictures of them there. */

let live: OwnLive;
let browser: Browser;
let desk: Browsing;
let owner: ConnectedUser;
let event: EventEnvelope;

beforeAll(async () => {
  live = await startLive({ WEBHOOK_RETRY_SCHEDULE: '200ms,400ms' });
  [browser, owner] = await Promise.all([startBrowser(), connectUser(live)]);
  const endpoint = (await live.api.get<{ data: { id: string }[] }>('/webhooks/endpoints')).data[0]?.id ?? '';
  await live.api.patch(`/webhooks/endpoints/${endpoint}`, { description: 'Orders' });
  ({ event } = (await owner.receive('INBOX', 'A heliotrope order')).call);
  desk = await signedIn();
}, 180_000);

afterAll(async () => {
  await browser?.close();
  await live?.close();
}, 60_000);

async function signedIn(view: Parameters<typeof browse>[2] = {}): Promise<Browsing> {
  const visitor = await browse(browser, live.api.base, view);
  const allowed = ['clipboard-read', 'clipboard-write', 'clipboard-sanitized-write'] as const;
  await visitor.page.browserContext().overridePermissions(live.api.base, [...allowed]);
  await visitor.open('/');
  await visitor.fill('API key', live.api.key);
  await visitor.click('Sign in', 'button');
  await visitor.sees('What is wrong now');
  return visitor;
}

/** Waits for a row of a table with this text. */
const row = (text: string) => desk.page.waitForSelector(`tbody ::-p-text(${text})`, { visible: true });
const copied = () => desk.page.evaluate('navigator.clipboard.readText()');

test('a delivery says which mailbox, email and endpoint it is about, and leads to the email', async () => {
  await desk.open('/deliveries?type=email.new');
  for (const text of ['A heliotrope order', 'Orders', owner.account.name]) await row(text);
  await desk.picture('deliveries');
  await desk.click('email.new', 'link');
  await desk.sees('To Orders');
  await desk.picture('delivery');
  await desk.page.bringToFront();
  await desk.click('Copy Event id', 'button');
  await desk.sees('Event id copied');
  expect(await copied()).toBe(event.id);
  await desk.click('Copy Payload', 'button');
  await desk.sees('Payload copied');
  expect(JSON.parse(String(await copied()))).toEqual(event);

  const dir = await mkdtemp(join(tmpdir(), 'downloads-'));
  const client = await desk.page.createCDPSession();
  await client.send('Browser.setDownloadBehavior', {
    behavior: 'allow',
    downloadPath: dir,
    browserContextId: desk.page.browserContext().id as string,
  });
  await desk.click('Download JSON', 'button');
  const saved = () => readFile(join(dir, `${event.id}.json`), 'utf8').catch(() => '');
  await waitFor(async () => (await saved()) !== '', { what: 'the file' });
  expect(JSON.parse(await saved())).toEqual(event);
  await rm(dir, { recursive: true });

  const { id } = emailOf({ event });
  await desk.page.click(`a[href="/mailboxes/${owner.account.id}/emails/${id}"]`);
  await desk.sees('What happened to it');
  await desk.sees('Delivered to Orders');
}, 90_000);

test('ranges of time are one click', async () => {
  await desk.open('/deliveries');
  await desk.sees('A heliotrope order');
  await desk.click('Last night, 18–08', 'button');
  const range = () =>
    desk.page.$$eval('input[type="datetime-local"]', (inputs) => inputs.map(({ value }) => value)) as Promise<string[]>;
  await waitFor(async () => (await range()).every((value) => value !== ''), { what: 'the range' });
  const [from = '', until = ''] = await range();
  expect([from.slice(11), until.slice(11)]).toEqual(['18:00', '08:00']);
  expect(Date.parse(until) - Date.parse(from)).toBe(14 * 3_600_000);
  await desk.click('15 min', 'button');
  await desk.sees('A heliotrope order');
  expect((await range())[1]).toBe('');
  await desk.click('Any time', 'button');
  await waitFor(async () => (await range()).every((value) => value === ''), { what: 'no range' });
  await desk.click('Audit', 'link');
  await desk.click('7 days', 'button');
  await row('Sign in');
}, 60_000);

test('times are shown relative, exact, or in UTC, and the filters follow', async () => {
  await desk.open('/deliveries');
  const shown = async () =>
    (await row('A heliotrope order')) && desk.page.$eval('tbody time', (time) => time.textContent);
  expect(await shown()).toMatch(/ago|now/);
  await desk.choose('Times', 'utc');
  const at = new Date(await desk.page.$eval('tbody time', (time) => time.dateTime));
  expect(await shown()).toContain(at.toISOString().slice(14, 19));
  expect(await desk.page.$eval('tbody time', (time) => time.title)).toContain('UTC');
  await desk.click('15 min', 'button');
  await row('A heliotrope order');
  expect(new URL(desk.page.url()).searchParams.get('since')?.slice(0, 13)).toBe(
    new Date(Date.now() - 15 * 60_000).toISOString().slice(0, 13),
  );
  await desk.choose('Times', 'relative');
}, 60_000);

test('the events begin with the last ones, older ones follow, and several types can be chosen', async () => {
  for (let n = 0; n < 60; n++) await owner.box.append('INBOX', { subject: `Order number ${n}` });
  await owner.event('email.new', (call) => emailOf(call).subject === 'Order number 59', { timeoutMs: 60_000 });
  await desk.open('/events');
  await row('Order number 59');
  const count = () => desk.page.$$eval('tbody tr', (rows) => rows.length);
  // the last page of the list, and whatever has happened since in any mailbox
  const before = await count();
  expect(before).toBeGreaterThanOrEqual(50);
  expect(await desk.page.$eval('tbody', (rows) => rows.textContent)).not.toContain('A heliotrope order');
  await desk.page.$eval('.pager', (pager) => pager.scrollIntoView());
  await row('A heliotrope order');
  expect(await count()).toBeGreaterThan(before + 10);
  await row(owner.account.name);
  await desk.choose('Type', 'account.add');
  await waitFor(async () => (await count()) === 1, { what: 'the only event of this type' });
  await desk.choose('Type', 'email.new');
  await row('Order number 59');
  await desk.click('email.new : do not show', 'button');
  await waitFor(async () => (await count()) === 1, { what: 'the first type alone' });
  await desk.open('/events');
  await desk.sees('Live');
  await owner.box.append('INBOX', { subject: 'Seen at once' });
  await row('Seen at once');
  await desk.picture('events');
}, 120_000);

test('on a phone each row is a card, its state first', async () => {
  const phone = await signedIn({ width: 390, height: 844 });
  for (const path of ['/mailboxes', '/deliveries', '/endpoints', '/keys', '/audit', '/settings']) {
    await phone.open(path);
    await phone.page.waitForSelector('.cards tbody tr');
    const cells = await phone.page.$eval('.cards tbody tr', (row) =>
      [...row.querySelectorAll('td')].map((cell) => {
        const { left, right, top } = cell.getBoundingClientRect();
        return { left, right, top, isFirst: cell.classList.contains('first') };
      }),
    );
    expect([path, cells.filter(({ left, right }) => left < 0 || right > 390)]).toEqual([path, []]);
    const first = cells.find(({ isFirst }) => isFirst);
    const shown = cells.filter(({ right, left }) => right - left > 20);
    if (first) expect([path, shown.every(({ top }) => top >= first.top)]).toEqual([path, true]);
    expect([path, await phone.page.evaluate('document.documentElement.scrollWidth - innerWidth')]).toEqual([path, 0]);
    expect([path, await phone.audit()]).toEqual([path, []]);
    await phone.picture(`phone${path.replaceAll('/', '-')}`);
  }
  expect(phone.faults).toEqual([]);
  await phone.close();
}, 90_000);
