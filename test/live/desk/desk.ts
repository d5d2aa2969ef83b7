import { afterAll, afterEach, beforeAll } from '@jest/globals';
import type { Browser, HTTPRequest } from 'puppeteer-core';
import { storeEmail, storeFolder } from '../../helpers/assert/rows.ts';
import { freePort } from '../../helpers/servers/free-port.ts';
import { type ApiUnderTest, apiUnderTest } from '../../helpers/product/api-under-test.ts';
import { type Browsing, browse, startBrowser } from '../../helpers/product/browser.ts';
import { BUILT_PAGES } from '../../helpers/product/built.ts';
import { storeAccount } from '../../helpers/product/stored-account.ts';

/** The built pages in a browser, on an API with one stored mailbox, whose answers a test may replace. */
export interface Desk extends Browsing {
  api: ApiUnderTest;
  browser: Browser;
  base: string;
  account: string;
  /** id of the stored email, `Lunch on Friday` */
  email: string;
  /** Signs in with the key, or with another, where the page asks for it. */
  signIn(key?: string): Promise<void>;
  /** Until the test ends, answers the requests of the page that fit with `reply`; undefined: as the API does. Returns those that fit. */
  answer(fits: (request: HTTPRequest) => boolean, reply: (index: number) => Reply | undefined): HTTPRequest[];
  /** From now on, the API answers all requests. */
  answerNone(): void;
}

/** `lost`: the request does not reach the API; `unheard`: it does, and its response is lost; `after`: what the response waits for. */
export type Reply = 'lost' | 'unheard' | { status: number; json: object; after?: Promise<void> };

/** Whether a request is of this method, and its path ends so. */
export const isCall =
  (method: string, path: string) =>
  (request: HTTPRequest): boolean =>
    request.method() === method && new URL(request.url()).pathname.endsWith(path);

/** Opens the dashboard, where it asks to sign in. */
async function openDesk(): Promise<Desk> {
  const port = await freePort();
  const base = `http://127.0.0.1:${port}`;
  const api = await apiUnderTest({ publicUrl: base, deps: { pagesDir: BUILT_PAGES } });
  await api.app.listen({ port, host: '127.0.0.1' });
  const account = await storeAccount(api.database, { name: 'Stored mailbox', userId: 'ada@example.test' });
  const inbox = await storeFolder(api.database, account, { role: 'INBOX', name: 'Inbox' });
  const { id } = await storeEmail(api.database, account, { folders: [inbox], subject: 'Lunch on Friday' });
  const browser = await startBrowser();
  const desk = await browse(browser, base);
  await desk.open('/');
  return {
    ...desk,
    ...{ api, browser, base, account, email: id },
    signIn: async (key = api.key) => {
      await desk.fill('API key', key);
      await desk.click('Sign in', 'button');
    },
    ...(await answering(desk)),
    close: async () => {
      await browser.close();
      await api.close();
    },
  };
}

/** Hooks of a test file: the dashboard is open and signed in from the first test on. Returns how to get it. */
export function deskTests(): () => Desk {
  let desk: Desk | undefined;
  beforeAll(async () => {
    desk = await openDesk();
    await desk.signIn();
    await desk.sees('What is wrong now');
  }, 120_000);
  afterEach(() => desk?.answerNone());
  afterAll(() => desk?.close());
  return () => desk as Desk;
}

async function answering({ page }: Browsing): Promise<Pick<Desk, 'answer' | 'answerNone'>> {
  const rules: ((request: HTTPRequest) => Reply | undefined)[] = [];
  await page.setRequestInterception(true);
  page.on('request', (request) => {
    // the last one decides
    const reply = rules.reduce<Reply | undefined>((before, rule) => rule(request) ?? before, undefined);
    if (reply === undefined) void request.continue();
    else if (reply === 'lost') void request.abort('connectionreset');
    else if (reply === 'unheard') void passOn(request).finally(() => request.abort('connectionreset'));
    else void respond(request, reply);
  });
  return {
    answer: (fits, reply) => {
      const seen: HTTPRequest[] = [];
      rules.push((request) => (fits(request) ? reply(seen.push(request) - 1) : undefined));
      return seen;
    },
    answerNone: () => void (rules.length = 0),
  };
}

async function respond(request: HTTPRequest, { status, json, after }: Exclude<Reply, string>): Promise<void> {
  await after;
  await request.respond({ status, contentType: 'application/json', body: JSON.stringify(json) });
}

/** Makes a call in place of the page, with its session. */
async function passOn(request: HTTPRequest): Promise<void> {
  const cookies = await request.frame()?.page().cookies(request.url());
  const cookie = (cookies ?? []).map(({ name, value }) => `${name}=${value}`).join('; ');
  const { origin } = new URL(request.url());
  await fetch(request.url(), {
    method: request.method(),
    headers: { ...request.headers(), cookie, origin },
    body: request.postData() ?? null,
  });
}
