import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { Browser } from 'puppeteer-core';
import type { EventEnvelope } from '../../../src/contract/events.ts';
import { emailOf } from '../../helpers/fakes/receiver.ts';
import { type Browsing, browse, startBrowser } from '../../helpers/product/browser.ts';
import { type ConnectedUser, connectUser, joinLive, type Live } from '../../helpers/product/live.ts';

/** The search of the dashboard, in a real browser. */

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
