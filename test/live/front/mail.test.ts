import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { Browser, ElementHandle } from 'puppeteer-core';
import type { Import } from '../../../src/contract/runs/import.ts';
import { waitFor } from '../../helpers/assert/wait.ts';
import { emailOf } from '../../helpers/fakes/receiver.ts';
import { startTcpProxy } from '../../helpers/fakes/tcp-proxy.ts';
import { type Browsing, browse, startBrowser } from '../../helpers/product/browser.ts';
import { faultsInLooks, LOCALES } from '../../helpers/assert/views.ts';
import { type ConnectedUser, connectLogin, connectUser, joinLive, type Live } from '../../helpers/product/live.ts';
import { addUser } from '../../helpers/product/mail-user.ts';
import { mailText, newMessageId } from '../../helpers/product/mail-text.ts';

/** The mail of mailboxes in the dashboard, in a real browser. SCREENSHOTS=<folder> leaves pictures of it there. */

let live: Live;
let browser: Browser;
let desk: Browsing;
/** those who see the pages with the dates of each locale */
let visitors: Browsing[];
let owner: ConnectedUser;
/** path of the mailbox in the dashboard */
let mailbox: string;

beforeAll(async () => {
  live = await joinLive();
  browser = await startBrowser();
  owner = await connectUser(live);
  mailbox = `/mailboxes/${owner.account.id}`;
  desk = await signIn();
  visitors = await Promise.all(LOCALES.map((locale) => signIn({ locale })));
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

/** No fault for axe on the page and no text that is cut: in the light, in the dark, on a narrow screen, in each locale. */
async function usable(name: string, to: string, text: string): Promise<void> {
  const found = await Promise.all(
    visitors.map(async (visitor) => {
      await visitor.open(to);
      await visitor.sees(text);
      return [...(await faultsInLooks(visitor, name)), ...visitor.faults];
    }),
  );
  expect(found.flat()).toEqual([]);
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
  await desk.page.locator('.emails a').click();
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
  await desk.click('What happened to it', 'link');
  await at(/\/emails\/email_/);
  await desk.click('Conversation', 'link');
  await at(/\/threads\/thr_/);
  await desk.sees('2 emails');
  await desk.click(`← ${owner.account.name}`, 'link');
  await rowsAre(/Lunch on Friday/);
  expect(desk.page.url()).toBe(list);

  await usable('thread', deep, 'menu.pdf');
  await usable('threads', `${mailbox}?view=threads`, 'Another matter');
}, 180_000);

/** Waits until the email is so for other mail programs, too. */
const isInMailbox = (folder: string, flag: string, count: number, { box } = owner) =>
  waitFor(
    async () => {
      const lock = await box.client.getMailboxLock(folder);
      try {
        const found = await box.client.search(flag.startsWith('\\') ? { flagged: true } : { keyword: flag });
        return (found || []).length === count;
      } finally {
        lock.release();
      }
    },
    { what: () => `${count} with ${flag} in ${folder}` },
  );

test('marks, stars, labels, moves and trashes an email', async () => {
  await owner.receive('INBOX', 'An invoice');
  await desk.open(mailbox);
  await desk.click('Star An invoice', 'button');
  await isInMailbox('INBOX', '\\Flagged', 1);
  await desk.choose('Show', 'starred');
  await rowsAre(/An invoice/);
  await desk.page.locator('.emails a').click();
  await at(/\/emails\/email_/);
  const email = path();
  await desk.click('Mark as read', 'button');
  await desk.sees('Mark as unread');
  await desk.click('Labels…', 'button');
  await desk.fill('Add', 'invoice-paid, customer-7');
  await desk.picture('labels');
  await desk.click('Change the labels', 'button');
  await desk.page.waitForSelector('.label-chip');
  await isInMailbox('INBOX', 'invoice-paid', 1);
  await desk.click('Labels…', 'button');
  await desk.click('customer-7', 'checkbox');
  await desk.click('Change the labels', 'button');
  await isInMailbox('INBOX', 'customer-7', 0);
  const archive = await live.api.folder(owner.account.id, 'ARCHIVE');
  await desk.click('Move…', 'button');
  await desk.choose('To the folder', archive.id);
  await desk.click('Move', 'button');
  await isInMailbox('Archive', 'invoice-paid', 1);
  await usable('actions', email, 'invoice-paid');

  await desk.open(`${mailbox}?folder=${archive.id}`);
  await rowsAre(/invoice-paid.*An invoice/);
  await desk.page.locator('.emails a').click();
  await desk.click('Trash', 'button');
  await desk.sees('No mail yet');
  expect(new URL(desk.page.url()).search).toBe(`?folder=${archive.id}`);
  await isInMailbox('Trash', 'invoice-paid', 1);
}, 180_000);

test('changes ticked emails, and all that match the filters after it has said how many', async () => {
  for (let n = 1; n <= 33; n++) await owner.box.append('INBOX', { subject: `Newsletter ${n}`, to: owner.user.user });
  await desk.open(`${mailbox}?q=newsletter`);
  await desk.click('Choose Newsletter 33', 'checkbox');
  await desk.click('Choose Newsletter 32', 'checkbox');
  await desk.sees('2 chosen');
  await desk.click('Star', 'button');
  await desk.sees('2 emails: star');
  await desk.click('Change 2 emails', 'button');
  await desk.sees('2 of 2 emails done');
  await desk.click('Done', 'button');
  await isInMailbox('INBOX', '\\Flagged', 2);

  await desk.click('Choose all shown', 'checkbox');
  await desk.sees('30 chosen');
  await desk.click('Choose all that match the filters', 'button');
  await desk.sees('All 33 emails that match');
  await desk.picture('all-match');
  await desk.click('Labels…', 'button');
  await desk.fill('Add', 'read-later');
  await desk.click('Change the labels', 'button');
  await desk.sees('33 emails: add read-later');
  await desk.picture('batch-confirm');
  await desk.click('Change 33 emails', 'button');
  await desk.sees('33 of 33 emails done');
  expect(await desk.audit()).toEqual([]);
  await desk.picture('batch-done');
  await desk.click('Done', 'button');
  await isInMailbox('INBOX', 'read-later', 33);
  await desk.choose('Show', 'starred');
  await desk.sees('Newsletter 32');
  await desk.click('Choose all shown', 'checkbox');
  await desk.click('Remove star', 'button');
  await desk.click('Change 2 emails', 'button');
  await desk.sees('2 of 2 emails done');
  await desk.click('Done', 'button');
  await isInMailbox('INBOX', '\\Flagged', 0);
  await desk.choose('Show', '');
  await usable('ticks', `${mailbox}?q=newsletter`, 'read-later');
}, 180_000);

test('changes the emails of ticked conversations, in the folder that is open', async () => {
  for (const re of ['', 'Re: ']) await owner.receive('INBOX', `${re}A quince delivery`);
  const inbox = await live.api.folder(owner.account.id, 'INBOX');
  await desk.open(`${mailbox}?view=threads&folder=${inbox.id}&q=quince`);
  await desk.click('Choose Re: A quince delivery', 'checkbox');
  await desk.sees('1 chosen: 2 emails');
  await usable('threads', `${mailbox}?view=threads&q=quince`, 'A quince delivery');
  await desk.click('Trash', 'button');
  await desk.click('Change 2 emails', 'button');
  // the rows leave the list before
  await desk.sees('No email fits');
  await desk.sees('2 of 2 emails done');
  await desk.click('Done', 'button');
}, 180_000);

test('says which emails of many could not be changed', async () => {
  const { call } = await owner.receive('INBOX', 'About to vanish');
  const made = await live.api.post<{ id: string }>(`/${owner.account.id}/emails/batch`, {
    ids: [emailOf(call).id, 'email_00000000000000000000000000'],
    change: { is_starred: true },
  });
  const page = `${mailbox}/batches/${made.id}`;
  await desk.open(page);
  await desk.sees('2 of 2 emails done, 1 failed');
  await desk.sees('email_00000000000000000000000000');
  await usable('batch', page, '1 failed');
}, 120_000);

test('searches all mailboxes from the search box, and says which mailbox has it', async () => {
  const other = await connectUser(live);
  await other.receive('INBOX', 'A periwinkle order');
  await owner.receive('INBOX', 'A periwinkle complaint');
  await desk.open('/deliveries');
  await desk.click('Find… Ctrl K', 'button');
  await desk.fill('An id, a Message-ID, a name, or words of an email', 'periwinkle');
  await desk.page.focus('dialog input');
  await desk.page.keyboard.press('Enter');
  await at(/\/mailboxes\/search/);
  const in_ = (name: string) => name.replaceAll('.', '\\.');
  await rowsAre(
    new RegExp(`In the mailbox ${in_(owner.account.name)}.*complaint`),
    new RegExp(`In the mailbox ${in_(other.account.name)}.*order`),
  );
  await desk.choose('Show', 'starred');
  await desk.sees('No email fits');
  await desk.choose('Show', '');
  await rowsAre(/complaint/, /order/);
  await desk.click('Choose all shown', 'checkbox');
  await desk.sees('2 chosen');
  expect(await desk.page.$$('::-p-aria([name="Move…"])')).toEqual([]);
  await desk.click('Labels…', 'button');
  await desk.fill('Add', 'evergreen');
  await desk.click('Change the labels', 'button');
  await desk.click('Change 2 emails', 'button');
  await waitFor(async () => (await desk.page.$$('dialog section progress[value="1"]')).length === 2, {
    what: 'a change of one email in each mailbox',
  });
  expect(await desk.audit()).toEqual([]);
  await desk.picture('search-done');
  await desk.click('Done', 'button');
  for (const person of [owner, other]) await isInMailbox('INBOX', 'evergreen', 1, person);
  await desk.page.click('.emails li:last-child a');
  await at(new RegExp(`/mailboxes/${other.account.id}/emails/`));
  await desk.page.goBack();
  await rowsAre(/complaint/, /order/);
  await usable('search', '/mailboxes/search?q=periwinkle', 'complaint');
}, 180_000);

test('imports older mail, with its progress, a pause and what is left', async () => {
  const OLD = 800;
  const user = await addUser();
  const proxy = await startTcpProxy(user.imapPort);
  const keeper = await connectLogin(live, user, {
    imapPort: proxy.port,
    before: async (box) => {
      for (let n = 0; n < OLD; n++)
        await box.append('INBOX', { subject: `Old ${n}` }, { date: new Date('2025-03-01') });
    },
  });
  const { id } = keeper.account;
  const imports = async () => (await live.api.get<{ data: Import[] }>(`/accounts/${id}/imports`)).data;
  await desk.open(`/mailboxes/${id}`);
  await desk.sees('No mail yet');
  await desk.click('Import older mail…', 'button');
  await desk.fill('Since', '2025-01-01');
  await desk.click('Inbox', 'checkbox');
  expect(await desk.audit()).toEqual([]);
  await desk.picture('import-form');
  await desk.click('Import', 'button');
  // what is left stays left while the server is away
  await waitFor(async () => ((await imports())[0]?.imported ?? 0) > 0, { everyMs: 10, timeoutMs: 60_000 });
  proxy.cut();
  await desk.sees(`of ${OLD} messages read`);
  const archive = await live.api.folder(id, 'ARCHIVE');
  await usable('importing', `/mailboxes/${id}?folder=${archive.id}`, 'Mail is being imported');
  await desk.open('/mailboxes');
  await waitFor(
    async () =>
      /importing \d+ %/.test((await desk.page.$$eval('td', (cells) => cells.map((cell) => cell.textContent))).join()),
    { what: 'the badge' },
  );
  await desk.picture('importing-badge');

  await desk.open(`/mailboxes/${id}`);
  await desk.click('Pause the import', 'button');
  await desk.click('Continue the import', 'button');
  await desk.click('Pause the import', 'button');
  await desk.page.waitForSelector('::-p-aria([name="Continue the import"])');
  const [{ progress } = { progress: null }] = await imports();
  expect(progress?.messages_left).toBeGreaterThan(0);
  proxy.restore();
  await desk.click('Continue the import', 'button');
  await waitFor(async () => (await imports())[0]?.status === 'completed', { timeoutMs: 180_000 });
  await desk.sees(`1 of 1 folders, ${OLD} of ${OLD} messages read. ${OLD} new emails.`);
  await desk.picture('imported');
  await keeper.box.close();
  await proxy.close();
}, 400_000);

test('says how far to trust an email and how to leave its list, and replies and forwards with files', async () => {
  const me = owner.user.user;
  const messageId = newMessageId();
  const fields =
    'Authentication-Results: mx.test; spf=pass; dkim=none; dmarc=pass header.from=shop.test\r\nReceived: by mx.test\r\n';
  const offer = mailText({
    ...{
      from: 'Shop <offers@shop.test>',
      to: `${me}, Ben <ben@elsewhere.test>`,
      subject: 'Offers of the week',
      messageId,
    },
    headers: {
      'List-Id': '<offers.shop.test>',
      'List-Unsubscribe': '<https://shop.test/leave>, <mailto:leave@shop.test>',
    },
  });
  await owner.box.append('INBOX', Buffer.concat([Buffer.from(fields), offer]));
  const call = await owner.event('email.new', (one) => emailOf(one).message_id === messageId);
  const email = `${mailbox}/emails/${emailOf(call).id}`;
  await desk.open(email);
  await desk.sees('It does come from shop.test');
  await desk.page.click('summary');
  await desk.sees('the domain of the sender confirms it');
  const ways = await desk.page.$$eval('a[rel="noopener noreferrer"]', (links) => links.map((link) => link.href));
  expect(ways).toEqual(expect.arrayContaining(['https://shop.test/leave', 'mailto:leave@shop.test']));
  await usable('trust', email, 'It does come from');

  await desk.open(email);
  await desk.click('Reply to all', 'button');
  const value = (label: string) =>
    desk.page
      .locator(`::-p-aria([name="${label}"][role="textbox"])`)
      .map((input) => (input as { value?: string }).value)
      .wait();
  expect([await value('To'), await value('Cc'), await value('Subject')]).toEqual([
    'Shop <offers@shop.test>',
    'Ben <ben@elsewhere.test>',
    'Re: Offers of the week',
  ]);
  await desk.click('Cancel', 'button');
  await desk.click('Reply', 'button');
  expect(await value('Cc')).toBe('');
  await desk.fill('To', `Me, myself <${me}>`);
  await desk.fill('Text', 'Ten of each, please.');
  const files = await desk.page.waitForSelector('dialog input[type=file]');
  await (files as ElementHandle<never>).uploadFile('LICENSE');
  await desk.sees('in total');
  expect(await desk.audit()).toEqual([]);
  await desk.picture('reply');
  await desk.click('Send', 'button');
  const reply = emailOf(
    await owner.event('email.new', (one) => emailOf(one).subject === 'Re: Offers of the week', { timeoutMs: 60_000 }),
  );
  expect(reply).toMatchObject({ thread_id: emailOf(call).thread_id, attachments: [{ name: 'LICENSE' }] });
  expect(reply.body_plain).toContain('Ten of each, please.');

  await desk.open(email);
  await desk.click('Forward', 'button');
  await desk.fill('To', me);
  await desk.click('Send', 'button');
  const forwarded = await owner.event('email.new', (one) => emailOf(one).subject === 'Fwd: Offers of the week', {
    timeoutMs: 60_000,
  });
  expect(emailOf(forwarded).body_plain).toContain('offers@shop.test');
}, 180_000);
