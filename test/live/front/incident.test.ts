import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { Browser } from 'puppeteer-core';
import { type Receiver, startReceiver } from '../../helpers/fakes/receiver.ts';
import { startTappedProxy, type TappedProxy } from '../../helpers/fakes/tapped-proxy.ts';
import { type Browsing, browse, startBrowser, type View } from '../../helpers/product/browser.ts';
import { connectLogin, connectUser, type ConnectedUser, type OwnLive, startLive } from '../../helpers/product/live.ts';
import { addUser, setPassword } from '../../helpers/product/mail-user.ts';
import { mailServers } from '../../helpers/servers/mail-servers.ts';

/**
 * An incident as its operator meets it: one mailbox whose password was changed, a mail server that is away, and an endpoint that
 * is down. The overview alone says who, what, since when, and what helps, also on a phone.
 */

const BEHIND_THE_SERVER = 3;

let live: OwnLive;
let browser: Browser;
let proxy: TappedProxy;
let orders: Receiver;
let refused: ConnectedUser;

beforeAll(async () => {
  live = await startLive({ SYNC_LOGIN_CHECK: '3s', SYNC_POLL_INTERVAL: '1s', WEBHOOK_RETRY_SCHEDULE: '1s,1h' });
  [browser, refused, orders, proxy] = await Promise.all([
    startBrowser(),
    connectUser(live),
    startReceiver(),
    startTappedProxy(mailServers().dovecot.imapPort, () => {}),
  ]);
  for (let count = 0; count < BEHIND_THE_SERVER; count++) {
    await connectLogin(live, { ...(await addUser()), imapPort: proxy.port });
  }
  const { url } = orders;
  await live.api.post('/webhooks/endpoints', { url, description: 'Orders', trigger_events: ['email.new'] });
  orders.answer = () => 503;
  await refused.receive('INBOX', 'An order');
  await setPassword(refused.user, 'a new one');
  await proxy.close();
}, 240_000);

afterAll(async () => {
  await browser?.close();
  await orders?.close();
  await live?.close();
}, 60_000);

async function overview(view: View): Promise<Browsing> {
  const desk = await browse(browser, live.api.base, view);
  await desk.open('/');
  await desk.fill('API key', live.api.key);
  await desk.click('Sign in', 'button');
  for (const problem of ['login refused', 'server away', 'calls fail']) {
    await desk.page.waitForSelector(`tbody ::-p-text(${problem})`, { visible: true, timeout: 240_000 });
  }
  return desk;
}

/** What each row says, by its problem. */
async function rowsOf({ page }: Browsing): Promise<Record<string, string[]>> {
  const rows = await page.$$eval('[aria-labelledby=problems] tbody tr', (all) =>
    all.map((row) =>
      [...row.querySelectorAll('td')].map((cell) => (cell as unknown as { innerText: string }).innerText.trim()),
    ),
  );
  return Object.fromEntries(
    rows.map(([who = '', what = '', detail = '', since = '', helps = '']) => [what, [who, detail, since, helps]]),
  );
}

test.each([
  ['a desk', { width: 1280 }],
  ['a phone', { width: 390, height: 844 }],
])(
  'the overview says who, what, since when and what helps, on %s',
  async (where, view) => {
    const desk = await overview(view);
    const since = expect.stringMatching(/ago|now/);
    expect(await rowsOf(desk)).toEqual({
      'login refused': [
        refused.account.name,
        expect.stringMatching(/\S/),
        since,
        'Reconnect it with the right password.',
      ],
      'server away': [
        '127.0.0.1',
        expect.stringContaining(`${BEHIND_THE_SERVER} mailboxes: `),
        since,
        expect.stringMatching(/^Check the server or the network\./),
      ],
      'calls fail': [
        'Orders',
        expect.stringMatching(/calls? failed in a row/),
        since,
        expect.stringMatching(/^Repair the receiver/),
      ],
    });
    const width = await desk.page.evaluate(
      'document.documentElement.scrollWidth - document.documentElement.clientWidth',
    );
    expect(width).toBeLessThanOrEqual(0);
    expect(await desk.audit()).toEqual([]);
    await desk.picture(`incident-${where.replace(' ', '-')}`);

    await desk.click('Reconnect it', 'link');
    await desk.sees(refused.account.name);
    expect(desk.faults).toEqual([]);
  },
  300_000,
);
