import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { Browser } from 'puppeteer-core';
import type { EventEnvelope } from '../../../src/contract/events.ts';
import { emailOf } from '../../helpers/fakes/receiver.ts';
import { type Browsing, browse, startBrowser } from '../../helpers/product/browser.ts';
import { type ConnectedUser, connectUser, joinLive, type Live } from '../../helpers/product/live.ts';

/** The search of the dashboard, its keys, and the forms in which it shows an email, in a real browser. */

let live: Live;
let browser: Browser;
let desk: Browsing;
let owner: ConnectedUser;
let event: EventEnvelope;

beforeAll(async () => {
  live = await joinLive();
  browser = await startBrowser();
  desk = await browse(browser, live.api.base);
  owner = await connectUser(live);
  event = (await owner.receive('INBOX', 'A heliotrope order')).call.event;
}, 180_000);

afterAll(async () => {
  await browser?.close();
  await live?.close();
}, 60_000);

test('finds a mailbox, an email and an event from any page, by Ctrl-K', async () => {
  await desk.open('/keys');
  await desk.fill('API key', live.api.key);
  await desk.click('Sign in', 'button');
  await desk.sees('Create a key');
  const find = async (text: string) => {
    await desk.page.keyboard.down('Control');
    await desk.page.keyboard.press('k');
    await desk.page.keyboard.up('Control');
    await desk.page.waitForSelector('dialog .found');
    await desk.fill('An id, a Message-ID, a name, or words of an email', text);
  };
  const follow = async (href: string) => {
    await desk.page.waitForSelector(`.found a[href="${href}"]`);
    await desk.page.click(`.found a[href="${href}"]`);
    await desk.page.waitForSelector('dialog', { hidden: true });
    expect(new URL(desk.page.url()).href).toBe(`${live.api.base}${href}`);
  };
  const { id } = owner.account;
  await find(owner.user.user);
  await follow(`/mailboxes/${id}`);
  await find(event.id);
  await follow(`/deliveries?event=${event.id}`);
  await find('heliotrope');
  await desk.page.waitForSelector(`.found a[href="/mailboxes/${id}/emails/${emailOf({ event }).id}"]`);
  expect(await desk.audit()).toEqual([]);
  await desk.picture('find');
  await follow(`/mailboxes/${id}/emails/${emailOf({ event }).id}`);
  await find('no such words anywhere');
  await desk.sees('Nothing found.');
  await desk.page.keyboard.press('Escape');
  expect(desk.faults).toEqual([]);
}, 60_000);

test('shows an email as text, with its headers, and as its source', async () => {
  await desk.open(`/mailboxes/${owner.account.id}/emails/${emailOf({ event }).id}`);
  await desk.page.waitForSelector('iframe.reader');
  const shows = async (view: string) => {
    await desk.click(view, 'button');
    const text = await desk.page.waitForSelector(`::-p-aria([name="${view}"][role="group"])`);
    return text?.evaluate((element) => element.textContent ?? '');
  };
  expect((await shows('Text'))?.trim()).toBe('Hello.');
  expect(await desk.page.$('iframe.reader')).toBeNull();
  expect(await shows('Headers')).toMatch(/^Subject: A heliotrope order$/m);
  const source = await fetch(`${live.api.base}/api/v1/${owner.account.id}/emails/${emailOf({ event }).id}/source`, {
    headers: { 'X-API-KEY': live.api.key },
  });
  expect((await shows('Source'))?.trim()).toBe((await source.text()).trim());
  expect(await desk.audit()).toEqual([]);
  await desk.picture('source');
  await desk.click('Message', 'button');
  const frame = await desk.page.waitForSelector('iframe.reader');
  const alone = await desk.page.$eval('#content a[target="_blank"]', (link) => link.href);
  expect(alone).toBe(await frame?.evaluate(({ src }) => src));
  expect(desk.faults).toEqual([]);
}, 60_000);
