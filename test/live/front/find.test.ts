import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { Browser, HTTPRequest } from 'puppeteer-core';
import type { EventEnvelope } from '../../../src/contract/events.ts';
import { emailOf } from '../../helpers/fakes/receiver.ts';
import { type Browsing, browse, startBrowser, typeServers } from '../../helpers/product/browser.ts';
import { type ConnectedUser, connectUser, joinLive, type Live } from '../../helpers/product/live.ts';
import { waitFor } from '../../helpers/assert/wait.ts';

/**
 * The search of the dashboard, its keys, the forms in which it shows an email, its links and filters, and what it does when calls
 * fail or end late, in a real browser.
 */

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
  await find(emailOf({ event }).id);
  await desk.page.focus('dialog input');
  await desk.page.keyboard.press('Enter');
  await desk.page.waitForSelector('dialog', { hidden: true });
  expect(desk.page.url()).toBe(`${live.api.base}/mailboxes/${id}/emails/${emailOf({ event }).id}`);
  await find('no such words anywhere');
  await desk.sees('Nothing found.');
  await desk.page.keyboard.press('Escape');
  expect(desk.faults).toEqual([]);
}, 60_000);

test('leads back to the filters that a section had, and clears them where they are', async () => {
  const address = () => desk.page.url().replace(live.api.base, '');
  const section = async (href: string, leads: string) => {
    await desk.page.click(`.nav a[href="${href}"]`);
    await desk.page.waitForFunction(`location.href.endsWith(${JSON.stringify(leads)})`);
  };
  await desk.open('/deliveries?status=failed');
  await desk.sees('Deliveries');
  await section('/audit', '/audit');
  await section('/deliveries?status=failed', '/deliveries?status=failed');
  await section('/deliveries', '/deliveries');
  await section('/audit', '/audit');
  await section('/deliveries', '/deliveries');
  expect(address()).toBe('/deliveries');
  expect(await desk.page.$$eval('.side-foot a', (links) => links.map((link) => link.textContent))).toContain('Metrics');
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

test('goes through lists, ticks, opens and replies by keys, which can be switched off', async () => {
  const { keyboard } = desk.page;
  const focused = () => desk.page.evaluate('document.activeElement.textContent');
  await owner.receive('INBOX', 'A second order');
  await desk.open('/deliveries');
  await desk.page.waitForSelector('tbody tr');
  await keyboard.press('g');
  await keyboard.press('m');
  await desk.page.waitForSelector(`tbody a[href="/mailboxes/${owner.account.id}"]`);
  await desk.open(`/mailboxes/${owner.account.id}`);
  await desk.sees('A second order');
  await keyboard.press('j');
  expect(await focused()).toContain('A second order');
  await keyboard.press('j');
  expect(await focused()).toContain('A heliotrope order');
  await keyboard.press('k');
  await keyboard.press('x');
  await desk.sees('1 chosen');
  await keyboard.press('/');
  await keyboard.type('jx');
  expect(await desk.page.$eval('input[type="search"]', ({ value }) => value)).toBe('jx');
  await keyboard.press('Backspace');
  await keyboard.press('Backspace');
  await desk.sees('A second order');
  await desk.page.focus('#content');
  await keyboard.press('j');
  await keyboard.press('Enter');
  await desk.sees('What happened to it');
  await keyboard.press('r');
  await desk.page.waitForSelector('dialog ::-p-text(Reply)');
  await keyboard.press('Escape');
  await desk.page.waitForFunction('document.querySelector("dialog") === null');
  await keyboard.press('u');
  await desk.page.waitForSelector('.emails a');

  await keyboard.press('?');
  await desk.sees('next row, previous row');
  expect(await desk.audit()).toEqual([]);
  await desk.picture('keys');
  await desk.click('Use them in this browser', 'checkbox');
  await keyboard.press('Escape');
  await desk.page.waitForSelector('dialog', { hidden: true });
  await keyboard.press('j');
  expect(await desk.page.evaluate('document.activeElement.tagName')).not.toBe('A');
  await desk.click('Shortcuts', 'button');
  await desk.click('Use them in this browser', 'checkbox');
  expect(desk.faults).toEqual([]);
}, 60_000);

/** A visitor some of whose calls are answered in place of the product: those whose `METHOD path` has this ending. */
async function visit(answers: Record<string, (request: HTTPRequest) => unknown>): Promise<Browsing> {
  const visitor = await browse(browser, live.api.base);
  await visitor.page.setRequestInterception(true);
  visitor.page.on('request', (request) => {
    const call = `${request.method()} ${new URL(request.url()).pathname}`;
    const answer = Object.entries(answers).find(([end]) => call.endsWith(end))?.[1];
    void (answer ? answer(request) : request.continue());
  });
  return visitor;
}

const json = (status: number, body: object) => ({
  status,
  contentType: 'application/json',
  body: JSON.stringify(body),
});

async function signIn(visitor: Browsing, path: string): Promise<void> {
  await visitor.open(path);
  await visitor.fill('API key', live.api.key);
  await visitor.click('Sign in', 'button');
}

test('shows the other ways to sign in after an outage, without a reload and over what is typed', async () => {
  let isAway = true;
  const visitor = await visit({
    'GET /sign-in/options': (request) =>
      request.respond(
        isAway ? json(503, { title: 'Not available', detail: 'The store is away' }) : json(200, { password: true }),
      ),
  });
  await visitor.open('/');
  await visitor.sees('The store is away.');
  await visitor.fill('API key', 'typed before');
  isAway = false;
  await visitor.click('Try again', 'button');
  await visitor.sees('Or with an API key');
  await visitor.sees('Email address');
  const key = await visitor.page.waitForSelector('::-p-aria([name="API key"])');
  expect(await key?.evaluate((field) => (field as unknown as { value: string }).value)).toBe('typed before');
  expect(visitor.faults).toEqual([]);
  await visitor.close();
}, 60_000);

test('keeps the delivery chosen whose retry alone is refused', async () => {
  const calls: string[] = [];
  const visitor = await visit({
    '/retry': (request) => {
      calls.push(request.url());
      return request.respond(
        calls.length === 1 ? json(409, { title: 'Conflict', detail: 'it is being delivered' }) : json(200, {}),
      );
    },
  });
  await signIn(visitor, `/deliveries?account=${owner.account.id}`);
  const boxes = 'tbody input[type="checkbox"]';
  await visitor.page.waitForSelector(`tr:nth-child(2) input`);
  for (const box of (await visitor.page.$$(boxes)).slice(0, 2)) await box.click();
  await visitor.click('Retry 2', 'button');
  await visitor.sees('1 delivery is made again, 1 not: It is being delivered.');
  await visitor.sees('Retry 1');
  const chosen = await visitor.page.$$eval(`${boxes}:checked`, (all) =>
    all.map((box) => box.getAttribute('aria-label')),
  );
  expect(chosen).toEqual([`Choose ${new URL(calls[0] ?? '').pathname.split('/').at(-2)}`]);
  await visitor.close();
}, 60_000);

test('stays on the page that a user went to while a mailbox was connected', async () => {
  let held: HTTPRequest | undefined;
  const visitor = await visit({ 'POST /api/v1/auth/intent': (request) => (held = request) });
  await signIn(visitor, '/mailboxes/connect');
  await visitor.fill('Email address', owner.user.user);
  await visitor.fill('Password', 'any');
  await visitor.page.keyboard.press('Tab');
  await visitor.sees('please type them in below');
  await typeServers(visitor, [1, 1]);
  await visitor.click('Connect mailbox', 'button');
  await waitFor(() => held !== undefined, { what: 'the call that connects it' });
  await visitor.page.click('.nav a[href="/keys"]');
  await visitor.sees('Create a key');
  await held?.respond(json(200, { ...owner.account, name: 'A late mailbox' }));
  await visitor.sees('A late mailbox is connected');
  expect(new URL(visitor.page.url()).pathname).toBe('/keys');
  await visitor.close();
}, 60_000);

test('opens a folder in another tab, and shows every filter that is in its address', async () => {
  const { page } = desk;
  const mailbox = `/mailboxes/${owner.account.id}`;
  await desk.open(mailbox);
  await page.waitForSelector('.folders a[href*="folder="]');
  expect(new Set(await page.$$eval('.folders a', (links) => links.map((link) => link.pathname)))).toEqual(
    new Set([mailbox]),
  );
  await page.keyboard.down('Control');
  await page.click('.folders a[href*="folder="]');
  await page.keyboard.up('Control');
  const tab = await browser.waitForTarget((target) => target.url().includes(`${mailbox}?folder=`));
  await (await tab.page())?.close();
  expect(page.url()).toBe(`${live.api.base}${mailbox}`);

  const valueOf = async (label: string) =>
    (await page.waitForSelector(`::-p-aria([name="${label}"])`))?.evaluate(
      (field) => (field as unknown as { value: string }).value,
    );
  const unlisted = `we_${'0'.repeat(26)}`;
  await desk.open(`/deliveries?endpoint=${unlisted}`);
  expect(await valueOf('Endpoint')).toBe(unlisted);
  await desk.open(`/audit?person=per_${'0'.repeat(26)}`);
  expect(await valueOf('Person')).toBe(`per_${'0'.repeat(26)}`);
  await desk.fill('Person', 'per_1');
  await page.waitForFunction('location.search === "?person=per_1"');
  await desk.open('/endpoints?offset=50');
  await desk.sees('No more endpoints');
  await desk.click('Previous', 'button');
  await page.waitForSelector('tbody a[href^="/endpoints/we_"]');
  expect(desk.faults).toEqual([]);
}, 60_000);

test('shows the year of a time that is not in this one', async () => {
  const record = {
    action: 'session.create',
    outcome: 'done',
    status: 201,
    request_id: 'a-request-id',
    address: '192.0.2.1',
  };
  const data = [
    { ...record, id: 'aud_1', at: '2020-01-02T03:04:05Z' },
    { ...record, id: 'aud_2', at: new Date().toISOString() },
  ].map((one) => ({ ...one, actor: 'a key', object_id: null, object_name: null, person_id: null, api_key_id: null }));
  const visitor = await visit({
    'GET /api/v1/audit': (request) => request.respond(json(200, { data, has_more: false })),
  });
  await signIn(visitor, '/audit');
  await visitor.page.waitForSelector('tbody tr:nth-child(2) time');
  const times = await visitor.page.$$eval('tbody time', (all) => all.map((time) => time.textContent));
  expect(times).toEqual([
    expect.stringContaining('2020'),
    expect.not.stringContaining(String(new Date().getFullYear())),
  ]);
  await visitor.close();
}, 60_000);
