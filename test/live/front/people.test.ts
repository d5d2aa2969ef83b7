import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { Browser } from 'puppeteer-core';
import { type Browsing, browse, startBrowser } from '../../helpers/product/browser.ts';
import { type OwnLive, startLive } from '../../helpers/product/live.ts';
import { type AuthServer, startAuthServer } from '../../helpers/servers/auth-server.ts';
import { freePort } from '../../helpers/servers/free-port.ts';

/** People sign in to the dashboard at a real identity provider, in a real browser. */

let live: OwnLive;
let auth: AuthServer;
let browser: Browser;
const people: Record<string, { name: string; groups: string[] }> = {
  'ada@example.test': { name: 'Ada Lovelace', groups: ['mail-admins'] },
  'vera@example.test': { name: 'Vera Rubin', groups: ['/support'] },
  'mallory@example.test': { name: 'Mallory', groups: ['others'] },
};

beforeAll(async () => {
  const port = await freePort();
  live = await startLive({
    OIDC_ISSUER: `http://127.0.0.1:${port}`,
    ...{ OIDC_CLIENT_ID: 'mail-app', OIDC_CLIENT_SECRET: 'canary-client-secret-0123456789' },
    ...{ OIDC_ADMIN_GROUPS: 'mail-admins', OIDC_VIEWER_GROUPS: '/support' },
  });
  const redirectUris = [`${live.api.base}/sign-in/oidc/callback`];
  [browser, auth] = await Promise.all([
    startBrowser(),
    startAuthServer({ port, redirectUris, people, hasThinIdTokens: true }),
  ]);
}, 180_000);
afterAll(async () => {
  await browser?.close();
  await auth?.close();
  await live?.close();
}, 60_000);

/** Signs in at the provider, and consents there. */
async function signIn({ page }: Browsing, name: string): Promise<void> {
  await page.waitForSelector('input[name=login]');
  await page.type('input[name=login]', name);
  await page.type('input[name=password]', 'any');
  await Promise.all([page.waitForNavigation(), page.click('button[type=submit]')]);
  await page.waitForSelector('button[type=submit]');
  await page.click('button[type=submit]');
}

test('an admin signs in, returns to the page that was asked for, and the audit log names who did what', async () => {
  const desk = await browse(browser, live.api.base);
  let callback = '';
  desk.page.on('request', (request) => {
    if (request.url().includes('/oidc/callback')) callback = request.url();
  });
  await desk.open('/keys?created_by=pk_none');
  await desk.sees('Single sign-on');
  await desk.picture('sign-in');
  expect(await desk.audit()).toEqual([]);
  await desk.click('Single sign-on', 'link');
  await signIn(desk, 'ada@example.test');
  await desk.sees('Signed in as');
  await desk.sees('Ada Lovelace <ada@example.test>');
  expect(desk.page.url()).toBe(`${live.api.base}/keys?created_by=pk_none`);
  const cookies = await desk.page.cookies(live.api.base);
  const ours = cookies.filter(({ name }) => name.startsWith('email_api'));
  expect(ours).toMatchObject([{ name: 'email_api_session', httpOnly: true, sameSite: 'Strict' }]);
  await desk.click('Create a key', 'button');
  await desk.fill('Name', 'Made by a person');
  await desk.click('Create it', 'button');
  await desk.click('I have copied it', 'button');
  await desk.open('/audit?action=api_key.create');
  await desk.sees('Made by a person');
  await desk.sees('Ada Lovelace <ada@example.test>');
  await desk.picture('audit-who');
  expect(await desk.audit()).toEqual([]);

  // the code again, in the browser that it was for
  const { status } = await fetch(callback, { redirect: 'manual' });
  expect(status).toBe(200);
  await desk.page.goto(callback);
  await desk.page.waitForFunction('location.pathname !== "/sign-in/oidc/callback"');
  expect(auth.requests).toHaveLength(1);
  await desk.open('/');
  await desk.click('Sign out', 'button');
  await desk.sees('Single sign-on');
  expect(desk.faults).toEqual([]);
  await desk.close();
}, 120_000);

test('a code is taken once by the provider, also with the cookie of the sign-in', async () => {
  const desk = await browse(browser, live.api.base);
  await desk.open('/');
  let callback = '';
  let cookie = '';
  const client = await desk.page.createCDPSession();
  await client.send('Network.enable');
  client.on('Network.requestWillBeSentExtraInfo', ({ headers }) => {
    const sent = headers['Cookie'] ?? headers['cookie'] ?? '';
    if (sent.includes('email_api_oidc')) cookie = sent;
  });
  desk.page.on('request', (request) => {
    if (request.url().includes('/oidc/callback')) callback = request.url();
  });
  await desk.click('Single sign-on', 'link');
  await signIn(desk, 'ada@example.test');
  await desk.sees('What is wrong now');
  expect(cookie).toContain('email_api_oidc=');
  const again = await fetch(callback, { headers: { cookie } });
  expect(await again.text()).toContain('error=refused');
  expect(again.headers.get('set-cookie')).not.toContain('email_api_session=');
  await desk.close();
}, 120_000);

test('a viewer sees everything and changes nothing; who is in no group gets a reason, and no session', async () => {
  const viewer = await browse(browser, live.api.base, { width: 390, height: 844 });
  await viewer.open('/');
  await viewer.sees('Single sign-on');
  await viewer.picture('narrow-sign-in');
  expect(await viewer.audit()).toEqual([]);
  await viewer.click('Single sign-on', 'link');
  await signIn(viewer, 'vera@example.test');
  await viewer.sees('What is wrong now');
  await viewer.open('/keys');
  await viewer.sees('everything');
  expect(await viewer.page.$$eval('main button', (all) => all.map(({ textContent }) => textContent))).toEqual([]);

  const outsider = await browse(browser, live.api.base, { dark: true });
  await outsider.open('/');
  await outsider.sees('Single sign-on');
  await outsider.picture('dark-sign-in');
  await outsider.click('Single sign-on', 'link');
  await signIn(outsider, 'mallory@example.test');
  await outsider.sees('You are in no group that may use this service');
  await outsider.picture('dark-no-group');
  expect(await outsider.audit()).toEqual([]);
  await outsider.close();

  // removed from the group: the next sign-in ends what the last one began
  people['vera@example.test'] = { name: 'Vera Rubin', groups: [] };
  const elsewhere = await browse(browser, live.api.base);
  await elsewhere.open('/');
  await elsewhere.click('Single sign-on', 'link');
  await signIn(elsewhere, 'vera@example.test');
  await elsewhere.sees('You are in no group that may use this service');
  await viewer.open('/keys');
  await viewer.sees('Single sign-on');
  expect(await live.product.logs()).not.toContain('canary-client-secret');
  await Promise.all([elsewhere.close(), viewer.close()]);
}, 120_000);
