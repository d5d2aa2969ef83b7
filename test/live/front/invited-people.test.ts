import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { Browser } from 'puppeteer-core';
import { type Browsing, browse, startBrowser } from '../../helpers/product/browser.ts';
import { faultsInLooks, LOCALES } from '../../helpers/assert/views.ts';
import { type OwnLive, startLive } from '../../helpers/product/live.ts';

/** An admin invites people in the dashboard; they choose a password and sign in with it, in a real browser. */

let live: OwnLive;
let browser: Browser;
let admin: Browsing;
let ada: Browsing;
/** of the last dialog */
let link: string;

const PASSWORD = 'correct horse battery';
const CHANGED = 'correct horse battery, too';

beforeAll(async () => {
  live = await startLive();
  browser = await startBrowser();
  admin = await browse(browser, live.api.base);
  ada = await browse(browser, live.api.base);
}, 180_000);
afterAll(async () => {
  await browser?.close();
  await live?.close();
}, 60_000);

/** Reads the link in the dialog, and closes it. */
async function takeLink(): Promise<string> {
  await admin.sees('I have copied it');
  const shown = await admin.page.$eval('dialog .secret code', ({ textContent }) => textContent ?? '');
  await admin.click('I have copied it', 'button');
  return shown;
}

async function choose(desk: Browsing, password: string, again = password): Promise<void> {
  await desk.fill('New password', password);
  await desk.fill('New password again', again);
}

async function signIn(desk: Browsing, email: string, password: string): Promise<void> {
  await desk.fill('Email address', email);
  await desk.fill('Password', password);
  await desk.click('Sign in', 'button');
}

const fields = ({ page }: Browsing) => page.$$eval('main label', (all) => all.map(({ textContent }) => textContent));

test('an admin invites a person; until then the sign-in page asks for a key alone', async () => {
  await admin.open('/keys');
  await admin.sees('With an API key.');
  expect(await fields(admin)).toEqual(['API key']);
  await admin.fill('API key', live.api.key);
  await admin.click('Sign in', 'button');
  await admin.click('People', 'link');
  await admin.sees('No people yet');
  await admin.picture('people-none');
  await admin.click('Invite a person', 'button');
  await admin.fill('Name', 'Ada Lovelace');
  await admin.fill('Email address', 'ada@example.test');
  await admin.choose('Role', 'operator');
  await admin.picture('people-invite');
  expect(await admin.audit()).toEqual([]);
  await admin.click('Make the link', 'button');
  await admin.sees('The link for Ada Lovelace');
  await admin.picture('people-link');
  expect(await admin.audit()).toEqual([]);
  link = await takeLink();
  expect(link).toMatch(/\/sign-in\/invitation#[\w-]{43}$/);
  await admin.sees('the link ends');
  // an address is invited once: the error names the field
  await admin.click('Invite a person', 'button');
  await admin.fill('Name', 'Ada again');
  await admin.fill('Email address', 'Ada@example.test');
  await admin.click('Make the link', 'button');
  await admin.sees('Email is that of a person who has been invited');
  await admin.click('Cancel', 'button');
}, 120_000);

test('the person chooses a password by the link, once, and signs in with it', async () => {
  const requested: string[] = [];
  ada.page.on('request', (request) => requested.push(request.url()));
  await ada.page.goto(link);
  await ada.sees('Welcome, Ada Lovelace');
  await choose(ada, PASSWORD, 'something else');
  await ada.sees('It is not the same yet.');
  expect(await ada.page.evaluate('document.querySelector("button.main-action").disabled')).toBe(true);
  await ada.picture('choose-password');
  await choose(ada, PASSWORD);
  await ada.click('Store the password', 'button');
  await ada.sees('Your password is stored');
  // the token is in no URL that is requested
  expect(requested.filter((url) => url.includes(link.slice(-43)) && !url.includes('#'))).toEqual([]);
  await ada.page.goto('about:blank');
  await ada.page.goto(link);
  await ada.sees('ask for a new one');
  await ada.picture('choose-password-used');
  expect(await ada.audit()).toEqual([]);

  await ada.open('/mailboxes');
  await ada.sees('Or with an API key:');
  await signIn(ada, 'ada@example.test', 'a wrong password');
  await ada.sees('The email address or the password is wrong');
  await ada.picture('sign-in-wrong');
  expect(await ada.audit()).toEqual([]);
  await signIn(ada, 'ADA@example.test', PASSWORD);
  await ada.sees('No mailbox is connected yet');
  await ada.sees('Ada Lovelace <ada@example.test>');
  const stored = await ada.page.evaluate('document.cookie + JSON.stringify({ ...localStorage, ...sessionStorage })');
  expect(stored).not.toContain(PASSWORD);
}, 120_000);

test('the person changes their own password', async () => {
  await ada.click('Change password', 'button');
  await ada.fill('Current password', 'a wrong password');
  await choose(ada, CHANGED);
  await ada.click('Change it', 'button');
  await ada.sees('Current password is wrong');
  await ada.picture('own-password');
  expect(await ada.audit()).toEqual([]);
  await ada.fill('Current password', PASSWORD);
  await ada.click('Change it', 'button');
  await ada.sees('Your password is changed');
  await ada.click('Sign out', 'button');
  await signIn(ada, 'ada@example.test', CHANGED);
  await ada.sees('No mailbox is connected yet');
}, 120_000);

test('an admin changes the role, resets the password and removes the person, whose sessions end', async () => {
  const buttons = ({ page }: Browsing) =>
    page.$$eval('main button', (all) => all.map(({ textContent }) => textContent));
  await admin.click('Change role of Ada Lovelace', 'button');
  await admin.choose('Role', 'viewer');
  await admin.click('Change it', 'button');
  await admin.page.waitForFunction('document.querySelector("td .badge")?.textContent === "viewer"');
  await ada.open('/keys/people');
  await ada.sees('Or with an API key:');
  await signIn(ada, 'ada@example.test', CHANGED);
  await ada.sees('with a password');
  expect(await buttons(ada)).toEqual([]);

  await admin.click('Reset password of Ada Lovelace', 'button');
  await admin.picture('people-reset');
  await admin.click('Reset it', 'button');
  link = await takeLink();
  await ada.open('/keys/people');
  await ada.sees('Or with an API key:');
  await signIn(ada, 'ada@example.test', CHANGED);
  await ada.sees('The email address or the password is wrong');
  await ada.page.goto(link);
  await choose(ada, PASSWORD);
  await ada.click('Store the password', 'button');
  await ada.click('Go to the sign-in page', 'link');
  await signIn(ada, 'ada@example.test', PASSWORD);
  await ada.sees('What is wrong now');

  await admin.click('Remove Ada Lovelace', 'button');
  await admin.click('Remove', 'button');
  await admin.sees('No people yet');
  await ada.open('/');
  await ada.sees('With an API key.');
  await admin.open('/audit');
  for (const action of ['Invite a person', 'Choose a password by a link', 'Reset a password', 'Remove a person'])
    await admin.page.waitForSelector(`td ::-p-text(${action})`);
  await admin.sees('Ada Lovelace <ada@example.test>');
  await admin.picture('people-audit');
  expect([...admin.faults, ...ada.faults]).toEqual([]);
  expect(await live.product.logs()).not.toMatch(/correct horse|ada@example\.test/);
}, 120_000);

test('its pages are usable in the light, in the dark, on a narrow screen, in three locales', async () => {
  const { url } = await live.api.post<{ url: string }>('/persons', {
    ...{ name: 'Grace Hopper', email: 'grace@example.test', role: 'admin' },
  });
  const found: string[] = [];
  for (const locale of LOCALES) {
    const desk = await browse(browser, live.api.base, { locale });
    const look = async (page: string) => found.push(...(await faultsInLooks(desk, page)));
    await desk.page.goto(url);
    await desk.sees('Welcome, Grace Hopper');
    await look('choose-password');
    await desk.open('/keys/people');
    await desk.sees('Or with an API key:');
    // the browser moves the focus after it has drawn the field
    await desk.page.waitForFunction("document.activeElement?.labels?.[0]?.textContent === 'Email address'");
    await look('sign-in-password');
    await desk.fill('API key', live.api.key);
    await desk.click('Sign in with the key', 'button');
    await desk.sees('the link ends');
    await look('people');
    await desk.click('Remove Grace Hopper', 'button');
    await desk.sees('The audit log still names them');
    await look('people-remove');
    await desk.close();
  }
  expect(found).toEqual([]);
}, 120_000);
