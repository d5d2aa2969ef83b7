import { beforeAll, expect, test } from '@jest/globals';
import { storeEmail, storeFolder } from '../../helpers/assert/rows.ts';
import { waitFor } from '../../helpers/assert/wait.ts';
import { storeAccount } from '../../helpers/product/stored-account.ts';
import { type Desk, deskTests } from './desk.ts';

/** Where a user is after a change of the page, in a real browser: for the eye, for the keyboard and for a screen reader. */

const signedIn = deskTests();
let desk: Desk;
let list: string;
beforeAll(async () => {
  desk = signedIn();
  const account = await storeAccount(desk.api.database, { name: 'Long list' });
  const inbox = await storeFolder(desk.api.database, account, { role: 'INBOX', name: 'Inbox' });
  for (let n = 1; n <= 28; n++)
    await storeEmail(desk.api.database, account, { folders: [inbox], subject: `Mail ${n}.` });
  list = `/mailboxes/${account}`;
});

/** The element that has the focus: its name in the page, and the start of its text. */
const focused = () =>
  desk.page.evaluate(
    "document.activeElement.tagName + ' ' + (/Mail \\d+\\./.exec(document.activeElement.textContent) ?? [document.activeElement.textContent])[0]",
  );
const isFocused = (element: string) =>
  waitFor(async () => (await focused()) === element, { what: () => `the focus on ${element}` });
const scrolled = () => desk.page.evaluate('scrollY') as Promise<number>;

test('a new page begins at its top with the focus on its heading, and the one before is where it was left', async () => {
  await desk.open(list);
  await desk.sees('Mail 8.');
  expect(await focused()).not.toMatch(/^H1/);
  await desk.page.evaluate("document.querySelector('.emails > li:nth-child(20)').scrollIntoView({ block: 'center' })");
  const before = await scrolled();
  expect(before).toBeGreaterThan(200);
  await desk.page.click('.emails > li:nth-child(20) a');
  await isFocused('H1 Mail 9.');
  expect(await scrolled()).toBe(0);
  await desk.page.goBack();
  await isFocused('H1 Long list');
  await waitFor(async () => Math.abs((await scrolled()) - before) < 5, { what: () => `the place ${before}` });
  await desk.page.keyboard.press('j');
  await isFocused('A Mail 8.');
  await desk.page.keyboard.press('Enter');
  await isFocused('H1 Mail 8.');
  await desk.page.keyboard.press('u');
  await isFocused('H1 Long list');
  await desk.page.keyboard.press('k');
  await isFocused('A Mail 9.');
}, 60_000);
