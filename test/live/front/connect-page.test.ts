import { createServer, type Server } from 'node:http';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { Browser } from 'puppeteer-core';
import type { Account } from '../../../src/contract/account.ts';
import type { AuthLinkCreated, MailServers } from '../../../src/contract/auth-link.ts';
import { type Browsing, browse, startBrowser, typeServers, type View } from '../../helpers/product/browser.ts';
import { faultsInLooks, LOCALES } from '../../helpers/assert/views.ts';
import { waitFor } from '../../helpers/assert/wait.ts';
import { listenOnFreePort } from '../../helpers/servers/free-port.ts';
import { type Live, startLive } from '../../helpers/product/live.ts';
import { addUser, type MailUser } from '../../helpers/product/mail-user.ts';

/** The page where the owner of a mailbox connects it, in a real browser and with real mail servers. */

let live: Live;
let browser: Browser;
let user: MailUser;
/** the caller's own site */
let site: Server;
let siteUrl: string;

beforeAll(async () => {
  live = await startLive({ BRAND_NAME: 'Harbour CRM', BRAND_COLOR: '#0f766e', TRUST_PROXY: '127.0.0.0/8' });
  [browser, user] = await Promise.all([startBrowser(), addUser()]);
  site = createServer((_request, response) => response.end('back at the caller'));
  siteUrl = `http://127.0.0.1:${await listenOnFreePort(site)}/done`;
}, 180_000);

afterAll(async () => {
  await browser?.close();
  site?.close();
  await live?.close();
}, 60_000);

const makeLink = (body: object = {}) =>
  live.api.post<AuthLinkCreated>('/auth/links', { redirect_url: siteUrl, state: 'customer 42', ...body });

let owners = 0;

/** The page of a link, with nothing of anybody who is signed in; each owner has an address, whose calls are limited. */
async function openLink(link: AuthLinkCreated, view: View = {}): Promise<Browsing> {
  const visitor = await browse(browser, live.api.base, { ...view, address: `192.0.2.${++owners}` });
  await visitor.open(new URL(link.url).pathname);
  return visitor;
}

/** Where the browser was sent. */
async function sentTo(visitor: Browsing): Promise<Record<string, string>> {
  await visitor.sees('back at the caller');
  return Object.fromEntries(new URL(visitor.page.url()).searchParams);
}

test('connects a mailbox once: asks for unknown servers, and explains a wrong password', async () => {
  const link = await makeLink({ name: 'Orders' });
  const owner = await openLink(link);
  await owner.sees('asks to read and send mail for you');
  await owner.picture('hosted-open');
  await owner.fill('Email address', user.user);
  await owner.fill('Password', 'wrong');
  await owner.click('Connect mailbox', 'button');
  await owner.sees('please type them in below');
  await owner.picture('hosted-unknown-servers');

  await typeServers(owner, [9, 9]);
  await owner.click('Connect mailbox', 'button');
  await owner.sees('could not be reached');
  await typeServers(owner, [user.imapPort, user.submissionPort]);
  await owner.click('Connect mailbox', 'button');
  await owner.sees('did not accept this address and password');
  await owner.page.waitForSelector('details');
  await owner.picture('hosted-wrong-password');

  await owner.fill('Password', user.password);
  await owner.click('Connect mailbox', 'button');
  const back = await sentTo(owner);
  expect(back).toEqual({ account_id: expect.stringMatching(/^acc_/), state: 'customer 42' });
  const account = await live.api.get<Account>(`/accounts/${back['account_id'] ?? ''}`);
  expect(account).toMatchObject({ name: 'Orders', user_id: user.user, status: 'running' });
  const { event } = await live.receiver.waitFor(({ event: { type } }) => type === 'account.add');
  expect(event.data).toMatchObject({ state: 'customer 42' });
  expect(owner.faults).toEqual([]);

  const again = await openLink(link);
  await again.sees('This link was used already');
  await again.picture('hosted-used');
  await Promise.all([owner.close(), again.close()]);
}, 120_000);

test('reconnects an account with a fixed address', async () => {
  const [account] = (await live.api.get<{ data: Account[] }>('/accounts')).data;
  const owner = await openLink(await makeLink({ account_id: account?.id }));
  await owner.page.waitForSelector('input[type=email]');
  expect(await owner.page.$eval('input[type=email]', (input) => input.value)).toBe(user.user);
  await owner.fill('Password', user.password);
  await owner.click('Connect mailbox', 'button');
  expect(await sentTo(owner)).toMatchObject({ account_id: account?.id });
  await owner.close();
}, 60_000);

test('redirects once it is loaded again when the response to its login was lost', async () => {
  const [account] = (await live.api.get<{ data: Account[] }>('/accounts')).data;
  const link = await makeLink({ account_id: account?.id });
  const owner = await openLink(link);
  await owner.page.waitForSelector('input[type=email]');
  const body = { credentials: { user: user.user, password: user.password } };
  const path = `${new URL(link.url).pathname}`;
  // as the page does, which does not get the response
  await owner.page.evaluate(`fetch(${JSON.stringify(path)}, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ ...${JSON.stringify(body)}, session: Object.entries(sessionStorage).find(([key]) => key.startsWith('connect '))[1] }),
  }).then(({ status }) => status)`);
  await owner.open(path);
  expect(await sentTo(owner)).toEqual({ account_id: account?.id, state: 'customer 42' });
  const other = await openLink(link);
  await other.sees('This link was used already');
  await Promise.all([owner.close(), other.close()]);
}, 60_000);

test.each([
  ['its own login, which ended later', true],
  ['that of another page', false],
])(
  'loaded again before the link was used by %s, redirects for its own one only',
  async (_whose, isOwn) => {
    const [account] = (await live.api.get<{ data: Account[] }>('/accounts')).data;
    const link = await makeLink({ account_id: account?.id });
    const owner = await openLink(link);
    await owner.page.waitForSelector('input[type=email]');
    const session = isOwn ? await owner.page.evaluate('Object.values(sessionStorage)[0]') : 'f'.repeat(32);
    await owner.page.reload();
    await owner.page.waitForSelector('input[type=email]');
    const body = { credentials: { user: user.user, password: user.password }, session };
    const init = { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) };
    const call = [new URL(link.url).pathname, init].map((given) => JSON.stringify(given)).join();
    expect(await owner.page.evaluate(`fetch(${call}).then(({ status }) => status)`)).toBe(200);
    await owner.fill('Password', user.password);
    await owner.click('Connect mailbox', 'button');
    if (isOwn) expect(await sentTo(owner)).toEqual({ account_id: account?.id, state: 'customer 42' });
    else await owner.sees('This link no longer works');
    await owner.close();
  },
  60_000,
);

test('keeps its session until it gets the result of its login', async () => {
  const [account] = (await live.api.get<{ data: Account[] }>('/accounts')).data;
  const owner = await openLink(await makeLink({ account_id: account?.id }));
  await owner.page.waitForSelector('input[type=email]');
  // the responses to the login and to the question for its result are lost
  await owner.page.evaluate(`{
    const real = fetch;
    globalThis.fetch = async (...call) => {
      const response = await real(...call);
      if (call[1]?.method === 'POST') throw new TypeError('lost');
      return response;
    };
  }`);
  await owner.fill('Password', user.password);
  await owner.click('Connect mailbox', 'button');
  await owner.sees('Your mailbox is connected');
  await owner.page.reload();
  expect(await sentTo(owner)).toEqual({ account_id: account?.id, state: 'customer 42' });
  await owner.close();
}, 60_000);

test('redirects a user who cancels, and explains why a link does not work', async () => {
  const owner = await openLink(await makeLink());
  await owner.click('Cancel and go back', 'button');
  expect(await sentTo(owner)).toEqual({ error: 'cancelled', state: 'customer 42' });
  await owner.open(`/connect/${'a'.repeat(43)}`);
  await owner.sees('This link does not work');
  await owner.sees('Please ask \u2068Harbour CRM\u2069');
  expect(await owner.page.title()).toContain('Harbour CRM');
  await owner.close();
}, 60_000);

test.each([
  ['lena@hotmail.com', 'Microsoft no longer accepts passwords'],
  ['lena@proton.me', 'Proton Mail encrypts'],
])(
  '%s meets a closed door with its reason, and no password field',
  async (address, reason) => {
    const servers = await live.api.get<MailServers>(`/auth/servers?address=${address}`);
    expect(servers.password_login).toBe('none');
    const owner = await openLink(await makeLink());
    await owner.sees('Connect your mailbox');
    await owner.fill('Email address', address);
    await owner.page.keyboard.press('Tab');
    await owner.sees('cannot be connected with a password');
    await owner.sees(reason);
    expect(await owner.page.$('input[type=password]')).toBeNull();
    expect(await owner.page.$('button.main-action')).toBeNull();
    expect(await owner.audit()).toEqual([]);
    await owner.click('This mailbox is at another provider', 'button');
    await owner.page.waitForSelector('input[type=password]');
    await owner.click('Cancel and go back', 'button');
    expect(await sentTo(owner)).toEqual({ error: 'cancelled', state: 'customer 42' });
    expect(owner.faults).toEqual([]);
    await owner.close();
  },
  60_000,
);

test('the owner of a Microsoft mailbox who is to reconnect it meets the same door', async () => {
  const [account] = (await live.api.get<{ data: Account[] }>('/accounts')).data;
  const owner = await openLink(await makeLink({ account_id: account?.id }));
  await owner.page.waitForSelector('input[type=password]');
  const setHost = (host: string) =>
    live.pool.query('update accounts set imap_host = $2 where id = $1', [account?.id, host]);
  await setHost('outlook.office365.com');
  try {
    await owner.page.reload();
    await owner.sees('Microsoft no longer accepts passwords');
    expect(await owner.page.$('input[type=password], button.main-action')).toBeNull();
    expect(await owner.audit()).toEqual([]);
    await owner.picture('hosted-reconnect-closed');
  } finally {
    await setHost('127.0.0.1');
  }
  await owner.close();
}, 60_000);

/** A PNG of one pixel. */
const LOGO =
  'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==';

const IN_LANGUAGES = {
  en: { title: 'Connect your mailbox', address: 'Email address', refused: 'did not accept', gone: 'does not work' },
  de: {
    title: 'Postfach verbinden',
    address: 'E-Mail-Adresse',
    refused: 'nicht akzeptiert',
    gone: 'funktioniert nicht',
  },
  fr: {
    title: 'Connecter votre boîte mail',
    address: 'Adresse e-mail',
    refused: 'n’a pas accepté',
    gone: 'ne fonctionne pas',
  },
  es: { title: 'Conecta tu buzón', address: 'Correo electrónico', refused: 'no ha aceptado', gone: 'no funciona' },
  it: {
    title: 'Collega la tua casella di posta',
    address: 'Indirizzo email',
    refused: 'non ha accettato',
    gone: 'non funziona',
  },
  nl: { title: 'Je mailbox koppelen', address: 'E-mailadres', refused: 'niet geaccepteerd', gone: 'werkt niet' },
  pl: { title: 'Połącz swoją skrzynkę', address: 'Adres e-mail', refused: 'nie przyjął', gone: 'nie działa' },
  ja: {
    title: 'メールボックスを接続',
    address: 'メールアドレス',
    refused: '受け付けませんでした',
    gone: 'このリンクは使えません',
  },
};

test.each(Object.entries(IN_LANGUAGES))(
  'speaks %s, with the steps of a provider, an Arabic name and a refused login',
  async (language, { title, address, refused, gone }) => {
    const link = await makeLink({ brand: { name: 'شركة الميناء', logo: LOGO } });
    const owner = await openLink(link, { language: `${language}-XX,sv;q=0.5` });
    await owner.sees(title);
    expect(await owner.page.evaluate('document.documentElement.lang')).toBe(language);
    expect(await owner.page.$eval('.connect-brand img', (image) => image.naturalWidth)).toBe(1);
    await owner.sees('\u2068شركة الميناء\u2069');
    await owner.fill(address, 'person@gmail.com');
    await owner.page.keyboard.press('Tab');
    await owner.page.waitForSelector('.steps a[href^="https://myaccount.google.com/apppasswords"]');
    const found: string[] = [];
    found.push(...(await faultsInLooks(owner, `hosted-${language}`)));
    await owner.page.click('input[type=checkbox]');
    await owner.page.waitForSelector('form input[type=text]');

    await owner.fill(address, user.user);
    await owner.page.keyboard.press('Tab');
    await owner.page.waitForSelector('.servers');
    await typeServers(owner, [user.imapPort, user.submissionPort]);
    await owner.page.locator('form input[type=text][autocomplete]').fill('wrong');
    await owner.page.click('button.main-action');
    await owner.sees(refused);
    found.push(...(await owner.audit()).map((fault) => `refused: ${fault}`));
    await owner.picture(`hosted-${language}-refused`);
    await owner.open(`/connect/${'a'.repeat(43)}`);
    await owner.sees(gone);
    expect([...found, ...owner.faults]).toEqual([]);
    await owner.close();
  },
  120_000,
);

test('proposes the name of the other server, and the port of the encryption', async () => {
  const owner = await openLink(await makeLink());
  await owner.fill('Email address', 'person@nowhere.invalid');
  await owner.page.keyboard.press('Tab');
  await owner.page.waitForSelector('.servers');
  const values = () =>
    owner.page.$$eval('.servers :is(input, select)', (fields) =>
      fields.map((field) => (field as unknown as { value: string }).value),
    );
  await owner.page.type('.servers input', 'imap.nowhere.invalid');
  await owner.page.keyboard.press('Tab');
  await owner.page.select('.servers select', 'STARTTLS');
  await waitFor(async () => (await values())[1] === '143', { what: 'the port' });
  expect(await values()).toEqual(['imap.nowhere.invalid', '143', 'STARTTLS', 'smtp.nowhere.invalid', '465', 'SSL']);
  await owner.page.locator('.servers input[type=number]').fill('1143');
  await owner.page.select('.servers select', 'SSL');
  await waitFor(async () => (await values())[2] === 'SSL', { what: 'the encryption' });
  expect((await values())[1]).toBe('1143');
  await owner.close();
}, 60_000);

test('keeps the language that the owner chose', async () => {
  const owner = await openLink(await makeLink(), { language: 'fr' });
  await owner.sees(IN_LANGUAGES.fr.title);
  await owner.choose('Langue', 'nl');
  await owner.sees(IN_LANGUAGES.nl.title);
  await owner.page.reload();
  await owner.sees(IN_LANGUAGES.nl.title);
  await owner.close();
}, 60_000);

test('says where IMAP is switched on first', async () => {
  const owner = await openLink(await makeLink());
  await owner.sees('Connect your mailbox');
  await owner.fill('Email address', 'lena@web.de');
  await owner.page.keyboard.press('Tab');
  await owner.sees('First allow access by IMAP');
  await owner.sees('POP3/IMAP Abruf');
  await owner.picture('hosted-imap-first');
  await owner.close();
}, 60_000);

test.each(LOCALES)(
  'is usable in the light, in the dark, on a narrow screen and for a screen reader, in the colors of the caller: %s',
  async (locale) => {
    const owner = await openLink(await makeLink(), { locale });
    await owner.sees('Connect your mailbox');
    await owner.fill('Email address', 'person@gmail.com');
    await owner.page.focus('input[type=password]');
    await owner.sees('app password');
    await owner.page.waitForSelector('a[href^="https://support.google.com"]');
    expect(await faultsInLooks(owner, 'hosted')).toEqual([]);
    expect(await owner.page.$eval('button.main-action', (button) => button.outerHTML)).toContain('Connect mailbox');
    expect(owner.faults).toEqual([]);
    await owner.close();
  },
  60_000,
);

test('has no key, no cookie and no access to the API', async () => {
  const owner = await openLink(await makeLink());
  await owner.sees('Connect your mailbox');
  expect(await owner.page.browserContext().cookies()).toEqual([]);
  const status = await owner.page.evaluate("fetch('api/v1/accounts').then(({ status }) => status)");
  expect(status).toBe(401);
  expect(owner.faults).toEqual([]);
  await owner.close();
}, 30_000);
