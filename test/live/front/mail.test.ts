import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { Browser } from 'puppeteer-core';
import { waitFor } from '../../helpers/assert/wait.ts';
import { emailOf } from '../../helpers/fakes/receiver.ts';
import { type Browsing, browse, startBrowser } from '../../helpers/product/browser.ts';
import { type ConnectedUser, connectUser, joinLive, type Live } from '../../helpers/product/live.ts';
import { newMessageId } from '../../helpers/product/mail-text.ts';

/** The mail of mailboxes in the dashboard, in a real browser. SCREENSHOTS=<folder> leaves pictures of it there. */

let live: Live;
let browser: Browser;
let desk: Browsing;
/** those who see the pages in the light, in the dark and on a narrow screen */
let visitors: [string, Browsing][];
let owner: ConnectedUser;
/** path of the mailbox in the dashboard */
let mailbox: string;

beforeAll(async () => {
  live = await joinLive();
  browser = await startBrowser();
  owner = await connectUser(live);
  mailbox = `/mailboxes/${owner.account.id}`;
  desk = await signIn();
  visitors = [
    ['light', desk],
    ['dark', await signIn({ dark: true })],
    ['narrow', await signIn({ width: 390, height: 844 })],
  ];
}, 180_000);

afterAll(async () => {
  await browser?.close();
  await live?.close();
}, 60_000);

async function signIn(view: Parameters<typeof browse>[2] = {}): Promise<Browsing> {
  const visitor = await browse(browser, live.api.base, view);
  await visitor.open('/keys');
  await visitor.fill('API key', live.api.key);
  await visitor.click('Sign in', 'button');
  await visitor.sees('Create a key');
  return visitor;
}

const path = () => new URL(desk.page.url()).pathname;
const at = (where: RegExp) =>
  waitFor(() => where.test(path()), { what: () => `${String(where)} instead of ${path()}` });
/** The texts of the rows of the list of mail. */
const rows = () => desk.page.$$eval('.emails > li', (items) => items.map((item) => item.textContent ?? ''));
const rowsAre = (...texts: RegExp[]) =>
  waitFor(
    async () => {
      const all = await rows();
      return all.length === texts.length && texts.every((text, index) => text.test(all[index] ?? ''));
    },
    { what: () => `rows ${texts.map(String).join(', ')}` },
  );

/** No fault for axe on the page, and nothing wider than the screen: in the light, in the dark, on a narrow screen. */
async function usable(name: string, to: string, text: string): Promise<void> {
  const found: string[] = [];
  for (const [view, visitor] of visitors) {
    await visitor.open(to);
    await visitor.sees(text);
    found.push(...(await visitor.audit()).map((fault) => `${view}: ${fault}`));
    const width = Number(await visitor.page.evaluate('document.documentElement.scrollWidth - innerWidth'));
    if (width > 0) found.push(`${view}: ${width} px wider than the screen`);
    await visitor.picture(`${name}-${view}`);
    found.push(...visitor.faults.map((fault) => `${view}: ${fault}`));
  }
  expect(found).toEqual([]);
}

test('lists conversations beside the emails, and reads one, by its address and back', async () => {
  const first = newMessageId();
  const to = owner.user.user;
  await owner.box.append('INBOX', { subject: 'Lunch on Friday', messageId: first, to, text: 'Shall we eat at noon?' });
  await owner.event('email.new', (call) => emailOf(call).message_id === first);
  const attachments = [{ name: 'menu.pdf', type: 'application/pdf', content: Buffer.from('soup') }];
  const answer = newMessageId();
  await owner.box.append('INBOX', {
    ...{ subject: 'Re: Lunch on Friday', from: 'Ben <ben@elsewhere.test>', to, messageId: answer },
    ...{ inReplyTo: first, references: first, text: 'Gladly, the menu is attached.', attachments },
  });
  await owner.event('email.new', (call) => emailOf(call).message_id === answer);
  await owner.receive('INBOX', 'Another matter');
  await owner.box.addFlags('INBOX', 1, ['\\Seen']);

  await desk.open(mailbox);
  await rowsAre(/Another matter/, /Re: Lunch/, /Lunch on Friday/);
  await desk.click('Conversations', 'button');
  await rowsAre(/Another matter/, /Ben, Ada Writer2 emails, 1 unread.*Re: Lunch.*the menu is attached.*with files/);
  expect(await desk.audit()).toEqual([]);
  await desk.fill('Search', 'noon');
  await rowsAre(/Lunch on Friday/);
  const list = desk.page.url();
  expect(new URL(list).search).toBe('?view=threads&q=noon');
  await desk.page.click('.emails a');
  await at(/\/threads\/thr_/);
  await desk.sees('2 emails');
  const opened = () => desk.page.$$eval('.turn', (turns) => turns.map((turn) => turn.getAttribute('aria-expanded')));
  expect(await opened()).toEqual(['false', 'true']);
  await desk.sees('menu.pdf');
  await desk.page.goBack();
  await rowsAre(/Lunch on Friday/);
  expect(desk.page.url()).toBe(list);

  await desk.page.goForward();
  const deep = path();
  await desk.sees('2 emails');
  await desk.page.click('.turn');
  await waitFor(async () => (await opened()).every((one) => one === 'true'), { what: 'both emails to be open' });
  await waitFor(() => desk.page.frames().filter((frame) => frame.url().includes('/view')).length === 2, {
    what: 'the texts of both',
  });
  await desk.click(`← ${owner.account.name}`, 'link');
  await rowsAre(/Lunch on Friday/);
  expect(desk.page.url()).toBe(list);

  await usable('thread', deep, 'menu.pdf');
  await usable('threads', `${mailbox}?view=threads`, 'Another matter');
}, 180_000);
