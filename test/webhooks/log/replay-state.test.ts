import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import type { ReplayFilter } from '../../../src/contract/runs/replay.ts';
import { recordEvents, recordTestEvent } from '../../../src/db/outbox.ts';
import { createReplay, getReplay } from '../../../src/db/queries/replays.ts';
import { newId } from '../../../src/new-id.ts';
import { createSecrets } from '../../../src/security/secrets.ts';
import { claimOnce, queueAsLogged, readLog } from '../../helpers/assert/queue.ts';
import { queueReplayed } from '../../../src/webhooks/log/replay-queue.ts';
import {
  cancelReplay,
  halfCancelledReplays,
  putBackReplayed,
  runningReplays,
} from '../../../src/webhooks/log/replay-state.ts';
import { type TestDatabase, testDatabase } from '../../helpers/servers/postgres.ts';
import { storeAccount } from '../../helpers/product/stored-account.ts';
import { waitFor } from '../../helpers/assert/wait.ts';
import { storeEndpoint } from '../../helpers/product/stored-endpoint.ts';

const secrets = createSecrets({ current: randomBytes(32) });
let test: TestDatabase;
let accounts: [string, string];
let endpointId: string;
beforeAll(async () => {
  test = await testDatabase();
  accounts = [await storeAccount(test.database), await storeAccount(test.database)];
});
afterAll(() => test?.drop());
beforeEach(async () => {
  await test.database.pool.query('truncate webhook_endpoints, events, deliveries, pending_deliveries, replays');
  endpointId = await endpoint();
});

const endpoint = () => storeEndpoint(test.database, secrets, { triggerEvents: ['email.new', 'email.update'] });

const query = (text: string, ...values: unknown[]) => test.database.pool.query(text, values);
const log = async () =>
  (await readLog(test.database.db)).toSorted(
    (a, b) => a.createdAt.getTime() - b.createdAt.getTime() || a.sequence - b.sequence,
  );
/** Changes the log, and the queue with it. */
const change = async (text: string, ...values: unknown[]) => {
  await query(text, ...values);
  await queueAsLogged(test.database);
};

/** Events of an account, whose deliveries have ended as `status`, each in a run. */
async function ended(count: number, status = 'delivered', account = accounts[0]): Promise<void> {
  const event = () => ({ type: 'email.new', objectId: 'email_1', data: { email: {} }, createdAt: new Date() }) as const;
  await test.database.db.transaction((tx) => recordEvents(tx, account, Array.from({ length: count }, event)));
  await change(
    `update deliveries set status = $1, workflow_id = 'deliver/' || id, attempts_count = 3 where status = 'pending'`,
    status,
  );
}

async function begin(filter: ReplayFilter = {}, to = endpointId): Promise<string> {
  const id = newId('replay');
  await createReplay(test.database.db, { id, endpointId: to, filter });
  return id;
}

const queue = (id: string, atOnce = 200) => queueReplayed(test.database.db, id, atOnce);
const replay = (id: string) => getReplay(test.database.db, id);
/** What the relay and a run do with what waits. */
const attempt = async (status: string, ids: string[]) => {
  await query(
    `update pending_deliveries set attempted = true, workflow_id = 'deliver/again' where delivery_id = any($1)`,
    ids,
  );
  await change(
    `update deliveries set status = $1, attempts_count = attempts_count + 1, workflow_id = 'deliver/again'
     where id = any($2)`,
    status,
    ids,
  );
};
const waiting = async () => (await log()).filter((row) => row.status === 'pending' && row.workflowId === null);

describe('a replay', () => {
  it('queues deliveries again and remembers their previous status', async () => {
    await ended(1, 'failed');
    const [before] = await log();
    const id = await begin();
    expect(await replay(id)).toMatchObject({ status: 'running', total: 1, pending: 0, completed_at: null });
    expect(await queue(id)).toEqual({ status: 'running', queued: 1, waiting: 1 });
    expect((await log())[0]).toEqual({
      ...before,
      status: 'pending',
      replayId: id,
      statusBeforeReplay: 'failed',
      scheduleFrom: 3,
      workflowId: null,
      lastWorkflowId: before?.workflowId,
      isQueued: true,
    });
  });

  it('queues in the order of the events, a bounded number at a time, none twice', async () => {
    await ended(7, 'delivered', accounts[0]);
    await ended(6, 'skipped', accounts[1]);
    await ended(5, 'failed', accounts[0]);
    const id = await begin();
    const order: string[] = [];
    for (let round = 0; round < 30; round++) {
      const step = await queue(id, 4);
      expect(step.waiting).toBeLessThanOrEqual(4);
      if (step.status === 'completed') break;
      const ids = (await waiting()).map((row) => row.id);
      expect(ids.length).toBe(step.waiting);
      const [first = ''] = ids;
      if (ids.length > 0) order.push(first);
      await attempt(round % 5 === 0 ? 'failed' : 'delivered', [first]);
    }
    const rows = await log();
    expect(order).toEqual(rows.map((row) => row.id));
    expect(rows.map((row) => row.attemptsCount)).toEqual(rows.map(() => 4));
    const done = await replay(id);
    expect(done).toMatchObject({ status: 'completed', total: 18, pending: 0, completed_at: expect.any(String) });
    expect((done?.delivered ?? 0) + (done?.failed ?? 0)).toBe(18);
    expect(await queue(id)).toEqual({ status: 'completed', queued: 0, waiting: 0 });
  });

  it('ends when the last retry has ended, and keeps its counts when a later replay repeats the deliveries', async () => {
    await ended(2);
    const id = await begin();
    await queue(id);
    const [one = '', two = ''] = (await waiting()).map((row) => row.id);
    await attempt('delivered', [one]);
    await attempt('pending', [two]);
    await queue(id);
    expect(await queue(id)).toEqual({ status: 'running', queued: 0, waiting: 0 });
    expect(await replay(id)).toMatchObject({ status: 'running', pending: 1, delivered: 1 });
    await attempt('failed', [two]);
    expect((await queue(id)).status).toBe('completed');
    await queue(await begin());
    expect(await replay(id)).toMatchObject({ total: 2, delivered: 1, failed: 1, skipped: 0, pending: 0 });
  });

  it('leaves out pending deliveries, tests, and deliveries of another running replay', async () => {
    await ended(3);
    const [pending, ...others] = (await log()).map((row) => row.id);
    await change(`update deliveries set status = 'pending' where id = $1`, pending);
    await test.database.db.transaction((tx) =>
      recordTestEvent(tx, {
        endpoint: { id: endpointId, url: 'https://93.184.215.14/' },
        accountId: accounts[0],
        type: 'email.new',
        data: { email: {} },
      }),
    );
    await change(`update deliveries set status = 'delivered' where test`);
    await query(`update deliveries set endpoint_id = 'we_other' where id = $1`, others[0]);
    const first = await begin();
    await queue(first);
    await attempt(
      'delivered',
      (await waiting()).filter((row) => row.replayId === first).map((row) => row.id),
    );
    const later = await begin();
    expect([(await replay(first))?.total, (await replay(later))?.total]).toEqual([1, 0]);
    await queue(first);
    expect((await queue(first)).status).toBe('completed');
    expect((await replay(await begin()))?.total).toBe(1);
  });

  it('is narrowed by time, status, type and account', async () => {
    await ended(2, 'delivered', accounts[0]);
    await ended(2, 'failed', accounts[1]);
    await ended(1, 'skipped', accounts[1]);
    const [first] = await log();
    await query(`update deliveries set event_type = 'email.update' where id = $1`, first?.id);
    await query(`update deliveries set created_at = created_at - interval '1 day' where status = 'failed'`);
    const hour = new Date(Date.now() - 3_600_000).toISOString();
    for (const [filter, total] of [
      [{}, 5],
      [{ status: 'failed' }, 2],
      [{ status: 'skipped' }, 1],
      [{ since: hour }, 3],
      [{ until: hour }, 2],
      [{ trigger_events: ['email.update'] }, 1],
      [{ account_ids: [accounts[1]] }, 3],
      [{ account_ids: [accounts[1]], since: hour, status: 'skipped' }, 1],
      [{ account_ids: [accounts[0]], status: 'failed' }, 0],
    ] as [ReplayFilter, number][]) {
      expect([filter, (await replay(await begin(filter)))?.total]).toEqual([filter, total]);
    }
  });

  it('leaves out deliveries that were recorded after it began', async () => {
    await ended(1);
    const id = await begin();
    await query(`update replays set created_at = created_at - interval '1 minute'`);
    await query(`update deliveries set created_at = created_at - interval '2 minutes'`);
    await ended(2, 'failed');
    expect((await queue(id)).queued).toBe(1);
  });

  it('restores deliveries that were not attempted when it is cancelled', async () => {
    await ended(2, 'delivered');
    await ended(2, 'skipped');
    await ended(2, 'failed');
    const before = await log();
    const id = await begin();
    await queue(id, 5);
    const [done, retried, claimed] = (await waiting()).map((row) => row.id) as [string, string, string];
    await attempt('delivered', [done]);
    await attempt('pending', [retried]);
    await query(`update pending_deliveries set workflow_id = 'deliver/again' where delivery_id = $1`, claimed);
    await cancelReplay(test.database.db, id);
    const rows = await log();
    expect(rows.map((row) => row.status)).toEqual(['delivered', 'pending', 'pending', 'skipped', 'failed', 'failed']);
    for (const [index, row] of rows.slice(3).entries()) {
      expect([row.status, row.workflowId, row.replayId]).toEqual([
        before[index + 3]?.status,
        before[index + 3]?.workflowId,
        null,
      ]);
    }
    expect(await replay(id)).toMatchObject({ status: 'cancelled', total: 6, delivered: 1, pending: 2 });
    await cancelReplay(test.database.db, id);
    expect(await queue(id)).toEqual({ status: 'cancelled', queued: 0, waiting: 0 });
    await attempt('delivered', [retried, claimed]);
    expect(await replay(id)).toMatchObject({ status: 'cancelled', delivered: 3, pending: 0 });
    expect(await runningReplays(test.database.db)).toEqual([]);
  });

  it.each(['disabled', 'deleted'])(
    'is cancelled when its endpoint is %s, and restores what was not attempted',
    async (how) => {
      await ended(3, 'delivered');
      const id = await begin();
      await queue(id, 2);
      const [retried = ''] = (await waiting()).map((row) => row.id);
      await attempt('pending', [retried]);
      await query(how === 'deleted' ? 'delete from webhook_endpoints' : 'update webhook_endpoints set enabled = false');
      expect(await queue(id)).toEqual({ status: 'cancelled', queued: 0, waiting: 0 });
      expect((await log()).map((row) => row.status)).toEqual(['pending', 'delivered', 'delivered']);
      expect(await replay(id)).toMatchObject({ status: 'cancelled', pending: 1, skipped: 0 });
    },
  );

  it('that has ended its deliveries is completed, though its endpoint was disabled', async () => {
    await ended(1);
    const id = await begin();
    for (let n = 0; n < 2; n++) await queue(id);
    await attempt(
      'delivered',
      (await waiting()).map((row) => row.id),
    );
    await query('update webhook_endpoints set enabled = false');
    expect((await queue(id)).status).toBe('completed');
  });

  it('continues with others when those of one object wait for an earlier delivery', async () => {
    await ended(260);
    await query(`update deliveries set object_id = 'other_' || n from (
      select id, row_number() over (order by sequence) - 250 as n from deliveries) numbered
      where numbered.id = deliveries.id and n > 0`);
    // the first of all is made again by its schedule, and not by the replay
    await change(`update deliveries set status = 'pending'
      where id = (select id from deliveries order by sequence limit 1)`);
    await query(`update pending_deliveries set due_at = now() + interval '1 hour', waits_for = 'retry'`);
    const id = await begin();
    const made: string[] = [];
    await waitFor(async () => {
      await queue(id, 40);
      const runs = await claimOnce(test.database.db, { most: 20 });
      const ids = runs.flatMap((run) => run.deliveries);
      made.push(...ids.map(({ objectId }) => objectId));
      await attempt(
        'delivered',
        ids.map((delivery) => delivery.id),
      );
      return made.length >= 10;
    });
    expect(made.sort()).toEqual(Array.from({ length: 10 }, (_, n) => `other_${n + 1}`).sort());
    expect(await queue(id)).toEqual({ status: 'running', queued: 0, waiting: 0 });
    // those that are held back are put back as any other
    await cancelReplay(test.database.db, id);
    expect((await log()).filter((row) => row.isQueued || row.status === 'pending')).toHaveLength(1);
  });

  it('is cancelled completely when its cancellation was cut short', async () => {
    await ended(3);
    const before = await log();
    const id = await begin();
    await queue(id);
    await query(`update replays set status = 'cancelled', completed_at = now()`);
    expect(await halfCancelledReplays(test.database.db)).toEqual([id]);
    await cancelReplay(test.database.db, id);
    expect(await halfCancelledReplays(test.database.db)).toEqual([]);
    expect((await log()).map((row) => row.status)).toEqual(before.map((row) => row.status));
  });

  it('takes over deliveries that a run still has from a cancelled replay', async () => {
    await ended(3, 'failed');
    const first = await begin();
    await queue(first);
    await query(`update pending_deliveries set workflow_id = 'deliver/run'`);
    await cancelReplay(test.database.db, first);
    const second = await begin();
    expect(await replay(second)).toMatchObject({ total: 3 });
    expect((await queue(second)).queued).toBe(3);
    const rows = await log();
    expect(rows.map((row) => [row.replayId, row.workflowId])).toEqual(rows.map(() => [second, 'deliver/run']));
    // the run found them cancelled just before
    const ids = rows.map((row) => row.id);
    await putBackReplayed(test.database.db, ids, 'deliver/run');
    expect((await log()).map((row) => row.status)).toEqual(['pending', 'pending', 'pending']);
    await attempt('delivered', ids);
    expect((await queue(second)).queued).toBe(0);
    expect((await queue(second)).status).toBe('completed');
  });

  it('queues a bounded number of an object that is held back, all of other objects, and finally all in order', async () => {
    await ended(2_000);
    await query(`update deliveries set object_id = 'other_' || n from (
      select id, row_number() over (order by sequence) as n from deliveries) numbered
      where numbered.id = deliveries.id and n % 20 = 0`);
    const order = (await log()).filter((row) => row.objectId === 'email_1').map((row) => row.id);
    const head = order.shift() as string;
    await change(`update deliveries set status = 'pending' where id = $1`, head);
    await query(`update pending_deliveries set due_at = now() + interval '1 hour', waits_for = 'retry'`);
    const id = await begin();
    const made: string[] = [];
    const advance = async (): Promise<void> => {
      await queue(id, 40);
      const runs = await claimOnce(test.database.db, { most: 40 });
      const ids = runs.flatMap((run) => run.deliveries.map((delivery) => delivery.id));
      made.push(...ids);
      await attempt('delivered', ids);
    };
    await waitFor(async () => {
      await advance();
      return made.length >= 100;
    });
    expect(made).toHaveLength(100);
    const { rows } = await query(
      `select count(*)::int as count from deliveries where replay_id = $1 and status = 'pending'`,
      id,
    );
    expect(rows[0]).toEqual({ count: expect.any(Number) });
    expect((rows[0] as { count: number }).count).toBeLessThan(150);
    await attempt('delivered', [head]);
    made.length = 0;
    await waitFor(
      async () => {
        await advance();
        return (await replay(id))?.status === 'completed';
      },
      { timeoutMs: 60_000, everyMs: 0 },
    );
    expect(made).toEqual(order);
    expect(await replay(id)).toMatchObject({ delivered: 1_999, pending: 0 });
  }, 120_000);

  it('continues correctly when two workers feed it at the same time', async () => {
    await ended(50);
    const id = await begin();
    const steps = await Promise.all(Array.from({ length: 4 }, () => queue(id, 20)));
    expect(steps.map((step) => step.queued).sort()).toEqual([0, 0, 0, 20]);
    expect(await queue(newId('replay'))).toEqual({ status: 'cancelled', queued: 0, waiting: 0 });
  });
});
