import { afterAll, beforeAll, expect, it } from '@jest/globals';
import type { History } from '../../src/contract/history.ts';
import type { WebhookConversation } from '../../src/contract/webhook.ts';
import { LINES, recordEvents } from '../../src/db/outbox.ts';
import { newId } from '../../src/new-id.ts';
import { type ApiUnderTest, apiUnderTest } from '../helpers/product/api-under-test.ts';
import { storeAccount } from '../helpers/product/stored-account.ts';

/** What the API says that a pending delivery waits for. */

let api: ApiUnderTest;
let account: string;
const emailId = newId('email');
beforeAll(async () => {
  api = await apiUnderTest();
  account = await storeAccount(api.database);
  const body = { url: 'https://93.184.215.14/hook', trigger_events: ['email.new', 'email.update'] };
  await api.call('POST', '/webhooks/endpoints', { body });
  const event = (type: 'email.new' | 'email.update') => ({ type, objectId: emailId, data: {}, createdAt: new Date() });
  await api.database.db.transaction((tx) => recordEvents(tx, account, [event('email.new'), event('email.update')]));
});
afterAll(() => api.close());

const of = async (type: string) =>
  (await api.get<{ data: WebhookConversation[] }>(`/webhooks/conversations?event_type=${type}`))
    .data[0] as WebhookConversation;

/** Sets what the queue has of the first event of the email. */
const queue = (set: string) =>
  api.database.pool.query(`update pending_deliveries set ${set} where delivery_id =
    (select id from deliveries where event_type = 'email.new')`);
const breaker = (until: string) => api.database.pool.query(`update webhook_endpoints set breaker_until = ${until}`);

const LIVE = 'waits_for = null, due_at = now()';
const RETRY = `waits_for = 'retry', due_at = now() + interval '5 minutes'`;

it.each<[string, string, string, string, boolean]>([
  ['a delivery that is next', LIVE, 'null', 'due', false],
  ['one of a replay', `${LIVE}, line = ${LINES.replay}`, 'null', 'replay', false],
  ['one that failed', RETRY, 'null', 'retry', true],
  [
    'one whose next attempt was due a while ago',
    `waits_for = 'retry', due_at = now() - interval '5 minutes'`,
    'null',
    'due',
    false,
  ],
  ['one of an endpoint that is spared', LIVE, `now() + interval '1 minute'`, 'breaker', true],
  ['one that failed, and is due before its endpoint is called', RETRY, `now() + interval '9 minutes'`, 'breaker', true],
  ['one that failed, and is due after that', RETRY, `now() + interval '1 minute'`, 'retry', true],
  ['one of an endpoint that is probed', LIVE, `now() - interval '1 second'`, 'breaker', false],
  ['one that is retried by hand', `${LIVE}, line = ${LINES.manual}`, `now() + interval '1 minute'`, 'due', false],
])('%s says so', async (_, set, until, reason, hasTime) => {
  await queue(`line = ${LINES.live}`);
  await queue(set);
  await breaker(until);
  const first = await of('email.new');
  expect(first.waiting_for).toEqual({ reason, until: hasTime ? expect.any(String) : null, behind: null });
  expect(first.next_attempt_at).toBe(first.waiting_for?.until);
  if (first.next_attempt_at !== null) expect(Date.parse(first.next_attempt_at)).toBeGreaterThan(Date.now());

  const second = await of('email.update');
  const isSpared = reason === 'breaker' && hasTime;
  expect(second.waiting_for).toMatchObject({ behind: first.id, ...(isSpared ? { reason } : {}) });
  const { data } = await api.get<History>(`/${account}/emails/${emailId}/history`);
  expect(data.find(({ delivery_id: id }) => id === first.id)).toMatchObject({
    waiting_for: first.waiting_for,
    next_attempt_at: first.next_attempt_at,
  });
});

it('a delivery behind another of its email waits for that one, until its next attempt', async () => {
  await queue(RETRY);
  await breaker('null');
  const [first, second] = [await of('email.new'), await of('email.update')];
  expect(second.waiting_for).toEqual({ reason: 'order', until: first.next_attempt_at, behind: first.id });
  expect(second.next_attempt_at).toBeNull();
});

it('a delivery that has ended waits for nothing', async () => {
  await api.database.pool.query(`update deliveries set status = 'delivered' where event_type = 'email.new'`);
  await api.database.pool.query(`delete from pending_deliveries where delivery_id =
    (select id from deliveries where event_type = 'email.new')`);
  expect(await of('email.new')).toMatchObject({ waiting_for: null, next_attempt_at: null });
  expect((await of('email.update')).waiting_for).toEqual({ reason: 'due', until: null, behind: null });
});
