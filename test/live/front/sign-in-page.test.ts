import { createServer, type Server } from 'node:http';
import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals';
import type { Browser } from 'puppeteer-core';
import type { Account } from '../../../src/contract/account.ts';
import type { AuthLinkCreated } from '../../../src/contract/auth-link.ts';
import type { OAuthApp } from '../../../src/contract/oauth.ts';
import { type Browsing, browse, startBrowser, typeServers } from '../../helpers/product/browser.ts';
import { type OwnLive, startLive } from '../../helpers/product/live.ts';
import { addUser, type MailUser } from '../../helpers/product/mail-user.ts';
import { listenOnFreePort } from '../../helpers/servers/free-port.ts';
import { type OAuthServers, startOAuthServers } from '../../helpers/servers/oauth-servers.ts';

/** The connect page with a provider where owners sign in: a real authorization server, in a real browser. */

let live: OwnLive;
let servers: OAuthServers;
let browser: Browser;
let user: MailUser;
/** the caller's own site */
let site: Server;
let siteUrl: string;

beforeAll(async () => {
  live = await startLive({ BRAND_NAME: 'Harbour CRM' });
  const redirectUris = [`${live.api.base}/connect/oauth/callback`];
  [browser, servers] = await Promise.all([startBrowser(), startOAuthServers({ redirectUris })]);
  site = createServer((_request, response) => response.end('back at the caller'));
  siteUrl = `http://127.0.0.1:${await listenOnFreePort(site)}/done`;
  const { clientId: client_id, clientSecret: client_secret, issuer } = servers.auth;
  const own = { provider: 'custom', name: 'Test provider', scope: 'openid email offline_access', hosts: ['127.0.0.1'] };
  const app = await live.api.post<OAuthApp>('/oauth/apps', { ...own, client_id, client_secret, issuer });
  expect(app.redirect_url).toBe(redirectUris[0]);
}, 180_000);
afterAll(async () => {
  await browser?.close();
  site?.close();
  await live?.close();
  await servers?.stop();
}, 60_000);
beforeEach(async () => {
  user = await addUser({ dovecot: servers.dovecot });
});

const makeLink = (body: object = {}) =>
  live.api.post<AuthLinkCreated>('/auth/links', { redirect_url: siteUrl, state: 'customer 42', ...body });

async function openLink(link: AuthLinkCreated): Promise<Browsing> {
  const visitor = await browse(browser, live.api.base);
  await visitor.open(new URL(link.url).pathname);
  return visitor;
}

/** Fills in the address and the servers, which discovery does not find. */
async function typeMailbox(owner: Browsing, address: string): Promise<void> {
  await owner.fill('Email address', address);
  await owner.page.keyboard.press('Tab');
  await owner.sees('please type them in below');
  await typeServers(owner, [servers.dovecot.imapPort, servers.postfix.submissionPort]);
}

/** Signs in at the provider and consents there. */
async function signIn({ page }: Browsing, name: string): Promise<void> {
  await page.waitForSelector('input[name=login]');
  // the page begins with the address that it was given
  await page.click('input[name=login]', { count: 3 });
  await page.type('input[name=login]', name);
  await page.type('input[name=password]', 'any');
  await Promise.all([page.waitForNavigation(), page.click('button[type=submit]')]);
  await page.waitForSelector('button[type=submit]');
  await page.click('button[type=submit]');
}

async function sentTo(owner: Browsing): Promise<Record<string, string>> {
  await owner.sees('back at the caller');
  return Object.fromEntries(new URL(owner.page.url()).searchParams);
}

test('connects a mailbox by a sign-in at its provider', async () => {
  const owner = await openLink(await makeLink({ name: 'Orders' }));
  await typeMailbox(owner, user.user);
  await owner.sees('Continue with Test provider');
  expect(await owner.audit()).toEqual([]);
  await owner.picture('sign-in-offer');
  await owner.click('Continue with Test provider', 'button');
  await owner.page.waitForSelector('input[name=login]');
  const asked = new URL(owner.page.url());
  expect(asked.origin).toBe(servers.auth.issuer);
  await signIn(owner, user.user);
  const back = await sentTo(owner);
  expect(back).toEqual({ account_id: expect.stringMatching(/^acc_/), state: 'customer 42' });
  const account = await live.api.get<Account>(`/accounts/${back['account_id'] ?? ''}`);
  expect(account).toMatchObject({ name: 'Orders', user_id: user.user, status: 'running' });
  const [request] = servers.auth.requests;
  expect(request?.form.get('grant_type')).toBe('authorization_code');
  expect(request?.form.get('code_verifier')).toMatch(/^[\w-]{43,}$/);
  expect(owner.faults).toEqual([]);
  await owner.close();
}, 120_000);

test('reconnects an account with its address, from a password to a sign-in', async () => {
  const { user: name, password } = user;
  const side = (port: number) => ({ host: '127.0.0.1', port, encryption: 'none' });
  const sides = { imap: side(servers.dovecot.imapPort), smtp: side(servers.postfix.submissionPort) };
  const credentials = { user: name, password, ...sides };
  const account = await live.api.post<Account>('/auth/intent', { provider: 'imap', credentials });
  const owner = await openLink(await makeLink({ account_id: account.id }));
  await owner.click('Continue with Test provider', 'button');
  await signIn(owner, name);
  expect(await sentTo(owner)).toMatchObject({ account_id: account.id });
  await owner.close();
}, 120_000);

test('refuses a sign-in with another address, and says so', async () => {
  const other = await addUser({ dovecot: servers.dovecot });
  const link = await makeLink();
  const owner = await openLink(link);
  await typeMailbox(owner, user.user);
  await owner.click('Continue with Test provider', 'button');
  await signIn(owner, other.user);
  await owner.sees('You signed in with another address');
  expect(new URL(owner.page.url()).search).toBe('');
  await owner.picture('sign-in-other-address');
  expect(await live.api.get(`/accounts?search=${encodeURIComponent(user.user)}`)).toMatchObject({ data: [] });
  await owner.close();
}, 120_000);

test('says that the owner did not allow access', async () => {
  const owner = await openLink(await makeLink());
  await typeMailbox(owner, user.user);
  await owner.click('Continue with Test provider', 'button');
  await owner.page.waitForSelector('a[href*="/abort"]');
  await owner.page.click('a[href*="/abort"]');
  await owner.sees('You did not allow access');
  await owner.close();
}, 60_000);

test('accepts no response from another browser, and none twice', async () => {
  const owner = await openLink(await makeLink());
  await typeMailbox(owner, user.user);
  await owner.click('Continue with Test provider', 'button');
  await owner.page.waitForSelector('input[name=login]');
  let callback = '';
  owner.page.on('request', (request) => {
    if (request.url().includes('/connect/oauth/callback')) callback = request.url();
  });
  await signIn(owner, user.user);
  await sentTo(owner);
  const [first] = (await live.api.get<{ data: Account[] }>(`/accounts?search=${encodeURIComponent(user.user)}`)).data;
  expect(first).toBeDefined();
  const lost = /content="0;url=[^"]*\/connect\/lost\?error=expired"/;
  expect(await (await fetch(callback)).text()).toMatch(lost);
  expect(await (await fetch(callback.replace(/state=[^&]+/, 'state=made-up'))).text()).toMatch(lost);
  await owner.close();
}, 120_000);
