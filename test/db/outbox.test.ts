import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { asc, eq, sql } from 'drizzle-orm';
import pg from 'pg';
import { inLease, type Lease, takeLease } from '../../src/db/coordination/lease.ts';
import { DELIVERIES_CHANNEL, type NewEvent, recordEvents } from '../../src/db/outbox.ts';
import { events, webhookEndpoints } from '../../src/db/schema/index.ts';
import { newId } from '../../src/new-id.ts';
import { type ClaimedRun } from '../../src/webhooks/dispatch/delivery-queries.ts';
import { claimOnce, readLog } from '../helpers/assert/queue.ts';
import { type TestDatabase, testDatabase } from '../helpers/servers/postgres.ts';
import { storeAccount } from '../helpers/product/stored-account.ts';
import { waitFor } from '../helpers/assert/wait.ts';

let test: TestDatabase;
beforeAll(async () => {
  test = await testDatabase();
});
afterAll(() => test.drop());

const event = (type: NewEvent['type'] = 'email.new', objectId = newId('email')): NewEvent => ({
  type,
  objectId,
  data: { text: 'Grüße \u0000 \ud83d 📬 "\\' },
  createdAt: new Date('2026-03-04T05:06:07.089Z'),
});

const record = (accountId: string, list: NewEvent[]) =>
  test.database.db.transaction((tx) => recordEvents(tx, accountId, list));

async function endpoint(options: Partial<typeof webhookEndpoints.$inferInsert> = {}): Promise<string> {
  const id = newId('endpoint');
  const at = new Date();
  await test.database.db.insert(webhookEndpoints).values({
    id,
    url: `https://hook.test/${id}`,
    triggerEvents: ['email.new'],
    accountIds: [],
    headers: Buffer.from('sealed'),
    secret: Buffer.from('sealed'),
    createdAt: at,
    updatedAt: at,
    ...options,
  });
  return id;
}

const eventsOf = (accountId: string) =>
  test.database.db.select().from(events).where(eq(events.accountId, accountId)).orderBy(asc(events.sequence));
const deliveriesOf = async (endpointId: string) =>
  (await readLog(test.database.db)).filter((row) => row.endpointId === endpointId);

describe('recording events', () => {
  it('gives every event of an account the next number, with concurrent writers', async () => {
    const [one, other] = await Promise.all([storeAccount(test.database), storeAccount(test.database)]);
    await Promise.all(Array.from({ length: 12 }, (_, n) => record(n % 4 === 0 ? other : one, [event(), event()])));
    expect((await eventsOf(one)).map(({ sequence }) => sequence)).toEqual(Array.from({ length: 18 }, (_, n) => n + 1));
    expect((await eventsOf(other)).map(({ sequence }) => sequence)).toEqual([1, 2, 3, 4, 5, 6]);
  });

  it('leaves no gap when a transaction is rolled back', async () => {
    const accountId = await storeAccount(test.database);
    const failing = test.database.db.transaction(async (tx) => {
      await recordEvents(tx, accountId, [event(), event()]);
      throw new Error('rolled back');
    });
    await expect(failing).rejects.toThrow('rolled back');
    await record(accountId, [event()]);
    expect((await eventsOf(accountId)).map(({ sequence }) => sequence)).toEqual([1]);
  });

  it('stores the data as the text that is sent', async () => {
    const accountId = await storeAccount(test.database);
    const stored = event('email.update');
    await record(accountId, [stored]);
    expect(await eventsOf(accountId)).toMatchObject([
      {
        type: 'email.update',
        objectId: stored.objectId,
        data: JSON.stringify(stored.data),
        createdAt: stored.createdAt,
        test: false,
      },
    ]);
  });

  it('is refused after the lease was lost', async () => {
    const accountId = await storeAccount(test.database);
    const lease = await takeLease(test.database.db, accountId);
    const recordAsHolder = (list: NewEvent[]) =>
      inLease(test.database.db, lease as Lease, (tx) => recordEvents(tx, accountId, list));
    await recordAsHolder([event()]);
    await takeLease(test.database.db, accountId);
    await expect(recordAsHolder([event()])).rejects.toMatchObject({ name: 'LeaseLost' });
    await expect(recordAsHolder([])).rejects.toMatchObject({ name: 'LeaseLost' });
    await expect(record(newId('account'), [event()])).rejects.toThrow('no account');
    expect(await eventsOf(accountId)).toHaveLength(1);
  });

  it('makes a delivery for each endpoint that wants the type and the account; a disabled one skips it', async () => {
    const accountId = await storeAccount(test.database);
    const all = await endpoint({ triggerEvents: ['email.new', 'email.update'] });
    const one = await endpoint({ triggerEvents: ['email.new'], accountIds: [accountId, newId('account')] });
    const disabled = await endpoint({ enabled: false });
    const foreign = await endpoint({ accountIds: [newId('account')] });
    const otherType = await endpoint({ triggerEvents: ['email.delete'] });
    const objects = [newId('email'), newId('email')];
    await record(accountId, [event('email.new', objects[0]), event('email.update', objects[1])]);
    const made = async (id: string) =>
      (await deliveriesOf(id)).map(({ eventType, status }) => `${eventType} ${status}`);
    expect(await made(all)).toEqual(['email.new pending', 'email.update pending']);
    expect(await made(one)).toEqual(['email.new pending']);
    expect(await made(disabled)).toEqual(['email.new skipped']);
    expect([await made(foreign), await made(otherType)]).toEqual([[], []]);
    const [first] = await eventsOf(accountId);
    expect((await deliveriesOf(one))[0]).toMatchObject({
      eventId: first?.id,
      objectId: objects[0],
      accountId,
      endpointUrl: `https://hook.test/${one}`,
      attemptsCount: 0,
      workflowId: null,
      nextAttemptAt: null,
    });
  });

  it('notifies the relay at the commit', async () => {
    const listener = new pg.Client({ connectionString: test.url });
    await listener.connect();
    let notifications = 0;
    listener.on('notification', () => notifications++);
    await listener.query(`listen ${DELIVERIES_CHANNEL}`);
    await endpoint();
    const accountId = await storeAccount(test.database);
    await test.database.db.transaction(async (tx) => {
      await recordEvents(tx, accountId, [event()]);
      await tx.execute(sql`select 1`);
      expect(notifications).toBe(0);
    });
    await waitFor(() => notifications === 1);
    await listener.end();
  });
});

describe('claiming deliveries', () => {
  const claim = (most = 100, not?: string) =>
    claimOnce(test.database.db, { most, only: ({ endpointId }) => endpointId !== not });
  const idsOf = (runs: ClaimedRun[]) => runs.flatMap((run) => run.deliveries.map(({ id }) => id));

  it('gives each delivery to one run only, with many concurrent claims', async () => {
    const accountId = await storeAccount(test.database);
    const endpoints = [await endpoint(), await endpoint()];
    await claim();
    await record(
      accountId,
      Array.from({ length: 120 }, () => event()),
    );
    const claimed = (await Promise.all([claim(), claim(), claim(), claim()])).flat();
    // a claim skips rows that another one has locked, and does not return to them
    const ids = idsOf([...claimed, ...(await claim()), ...(await claim())]);
    const rows = (await Promise.all(endpoints.map(deliveriesOf))).flat();
    expect(new Set(ids).size).toBe(ids.length);
    const mine = new Set(ids);
    expect(
      rows.every(({ id, workflowId, claimedAt }) => mine.has(id) && workflowId !== null && claimedAt !== null),
    ).toBe(true);
  });

  it('takes the oldest of each endpoint first, regardless of backlogs, and no held ones', async () => {
    const accountId = await storeAccount(test.database);
    const [held, long, short] = [
      await endpoint(),
      await endpoint(),
      await endpoint({ triggerEvents: ['email.update'] }),
    ];
    await record(
      accountId,
      Array.from({ length: 30 }, () => event()),
    );
    await record(accountId, [event('email.update')]);
    const runs = await claim(20, held);
    const of = (id: string) => runs.filter((run) => run.deliveries[0]?.endpointId === id);
    expect(idsOf(of(long))).toEqual((await deliveriesOf(long)).slice(0, 20).map(({ id }) => id));
    expect(of(short)).toHaveLength(1);
    expect(of(held)).toEqual([]);
    expect((await deliveriesOf(held)).every(({ workflowId }) => workflowId === null)).toBe(true);
  });
});
