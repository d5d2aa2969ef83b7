import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { Account } from '../../src/contract/account.ts';
import { addUser } from '../helpers/product/mail-user.ts';
import { startLimitingProxy } from '../helpers/fakes/limiting-proxy.ts';
import { brief, connectLogin, type Live, joinLive } from '../helpers/product/live.ts';
import type { Mailbox } from '../helpers/product/mailbox.ts';

/** A server that processes 1,000 messages per command, as Yahoo does (MESSAGELIMIT, RFC 9738), with more in a folder. */

const LIMIT = 1_000;
const OLD = 2_500;
const AT_ONCE = 1_500;

let live: Live;

beforeAll(async () => {
  live = await joinLive();
}, 120_000);

afterAll(() => live?.close());

async function fill(box: Mailbox, count: number, name: string): Promise<void> {
  for (let index = 0; index < count; index++) await box.append('INBOX', { subject: `${name} ${index}` });
}

test('all mail is imported, new mail is reported once, and nothing counts as deleted', async () => {
  const user = await addUser();
  const proxy = await startLimitingProxy(user.imapPort, LIMIT);
  try {
    const owner = await connectLogin(live, user, {
      before: (box) => fill(box, OLD, 'old'),
      imapPort: proxy.port,
      config: { initial_sync_enable: true, initial_sync_days: 7 },
    });
    await owner.event('account.initial_sync.completed', undefined, { timeoutMs: 120_000 });
    const { initial_sync: imported } = await live.api.get<Account>(`/accounts/${owner.account.id}`);
    expect(imported).toMatchObject({ status: 'completed', imported: OLD });

    await fill(owner.box, 10, 'new');
    expect(brief(await owner.settle())).toEqual(
      Array.from({ length: 10 }, (_, index) => `email.new new ${index}`).sort(),
    );

    await fill(owner.box, AT_ONCE, 'burst');
    const events = await owner.settle('INBOX', { timeoutMs: 120_000 });
    expect(brief(events)).toEqual(Array.from({ length: AT_ONCE }, (_, index) => `email.new burst ${index}`).sort());
    await owner.box.close();
  } finally {
    await proxy.close();
  }
}, 300_000);
