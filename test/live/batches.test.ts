import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { EmailBatch } from '../../src/contract/email.ts';
import { emailOf } from '../helpers/fakes/receiver.ts';
import { type ConnectedUser, connectUser, type OwnLive, startLive } from '../helpers/product/live.ts';
import { isLong } from '../helpers/runner/long.ts';
import { waitFor } from '../helpers/assert/wait.ts';

/** Changes of many emails on a Dovecot: all of them are made, each once, also when the worker is killed in the middle. */

const EMAILS = isLong() ? 10_000 : 1_500;

let live: OwnLive;
let owner: ConnectedUser;

beforeAll(async () => {
  live = await startLive();
  owner = await connectUser(live, {
    config: { initial_sync_enable: true, initial_sync_days: 30 },
    before: async (box) => {
      const numbers = Array.from({ length: EMAILS }, (_, n) => n);
      for (let start = 0; start < EMAILS; start += 50) {
        await Promise.all(numbers.slice(start, start + 50).map((n) => box.append('INBOX', { subject: `mail ${n}` })));
      }
    },
  });
  await waitFor(async () => (await count(`email_id is not null`)) === EMAILS, {
    timeoutMs: 600_000,
    what: () => 'the import',
  });
}, 900_000);
afterAll(() => live?.close());

async function count(where: string): Promise<number> {
  const { rows } = await live.pool.query<{ n: number }>(`select count(*)::int as n from locations where ${where}`);
  return rows[0]?.n ?? 0;
}

const create = (change: object) =>
  live.api.post<EmailBatch>(`/${owner.account.id}/emails/batch`, { filter: { q: 'mail' }, change });
const read = ({ id }: EmailBatch) => live.api.get<EmailBatch>(`/${owner.account.id}/batches/${id}`);

async function completed(batch: EmailBatch): Promise<EmailBatch> {
  let now = batch;
  await waitFor(async () => (now = await read(batch)).status === 'completed', {
    timeoutMs: 180_000,
    everyMs: 50,
    what: () => `the batch; ${now.changed} of ${now.total}`,
  });
  return now;
}

/** Every email has one event since `from`. */
async function expectOneEventEach(from: number): Promise<void> {
  const { rows } = await live.pool.query<{ emails: number; events: number }>(
    `select count(distinct object_id)::int as emails, count(*)::int as events from events
     where account_id = $1 and type = 'email.update' and sequence > $2`,
    [owner.account.id, from],
  );
  expect(rows[0]).toEqual({ emails: EMAILS, events: EMAILS });
}
const lastEvent = async () => {
  const { rows } = await live.pool.query<{ last: string | null }>(
    `select max(sequence) as last from events where account_id = $1`,
    [owner.account.id],
  );
  return Number(rows[0]?.last ?? 0);
};

test('stars many emails in one call', async () => {
  const from = await lastEvent();
  const began = performance.now();
  const batch = await completed(await create({ is_starred: true }));
  const seconds = (performance.now() - began) / 1000;
  console.log(`${EMAILS} emails were starred in ${seconds.toFixed(1)} s`);
  expect(batch).toMatchObject({ total: EMAILS, changed: EMAILS, failed: 0, pending: 0 });
  await expectOneEventEach(from);
  expect(await owner.box.client.status('INBOX', { unseen: true })).toMatchObject({ unseen: EMAILS });
}, 240_000);

test('a killed worker leaves no email unchanged, and changes none twice', async () => {
  const from = await lastEvent();
  const batch = await create({ trash: true });
  await waitFor(async () => (await read(batch)).changed > 0, { timeoutMs: 60_000, everyMs: 20, what: () => 'a start' });
  await live.product.killWorker('SIGKILL');
  live.product.startWorker();
  expect(await completed(batch)).toMatchObject({ total: EMAILS, changed: EMAILS, failed: 0 });
  await owner.receive('INBOX', 'after the batch');
  await expectOneEventEach(from);
  expect(await owner.box.client.status('INBOX', { messages: true })).toMatchObject({ messages: 1 });
  expect(await owner.box.client.status('Trash', { messages: true })).toMatchObject({ messages: EMAILS });
  expect(emailOf(owner.events('email.new').at(-1)!).subject).toBe('after the batch');
}, 300_000);

test('two changes of the same emails at once are made one after the other', async () => {
  const idOf = async (role: string) => (await live.api.folder(owner.account.id, role)).id;
  const [archive, inbox] = [await idOf('ARCHIVE'), await idOf('INBOX')];
  const there = await create({ folders_ids: [archive] });
  const back = await create({ folders_ids: [inbox], keywords: { add: ['back'] } });
  for (const batch of [there, back]) expect(await completed(batch)).toMatchObject({ changed: batch.total, failed: 0 });
  expect(await owner.box.client.status('INBOX', { messages: true })).toMatchObject({ messages: EMAILS + 1 });
  expect(await owner.box.client.status('Archive', { messages: true })).toMatchObject({ messages: 0 });
}, 400_000);
