import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import type { Client } from '@temporalio/client';
import { createLogger } from '../../../src/runtime/logger.ts';
import { newId } from '../../../src/new-id.ts';
import { createSecrets } from '../../../src/security/secrets.ts';
import { attemptWaiting, retryDelivery } from '../../../src/webhooks/dispatch/retry-delivery.ts';
import { createResultStore } from '../../../src/webhooks/log/result-store.ts';
import type { DeliveryTarget } from '../../../src/webhooks/attempt/due-deliveries.ts';
import { storeEndpoint } from '../../helpers/product/stored-endpoint.ts';
import { type TestDatabase, testDatabase } from '../../helpers/servers/postgres.ts';

/** Which deliveries that wait for their next attempt are made due, and when. */

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const retryScheduleMs = [5_000, 30_000, 5 * MINUTE, 30 * MINUTE, 2 * HOUR, 5 * HOUR];
const logger = createLogger('silent', 'test');

const secrets = createSecrets({ current: randomBytes(32) });
let test: TestDatabase;
let endpointId: string;
beforeAll(async () => {
  test = await testDatabase();
});
afterAll(() => test.drop());
beforeEach(async () => {
  await test.database.pool.query('truncate webhook_endpoints, deliveries, pending_deliveries, delivery_attempts');
  endpointId = await storeEndpoint(test.database, secrets, { enabled: true });
});

const ago = (ms: number) => new Date(Date.now() - ms);

interface Waiting {
  attempts: number;
  /** when its schedule began and its last attempt ended, ms ago; that took `durationMs` */
  firstMs: number;
  lastMs: number;
  durationMs?: number;
  /** of an earlier schedule */
  before?: number;
  delayMs: number;
  run?: string;
}

/** A delivery that waits for its next attempt; its id. */
async function waiting(of: Waiting): Promise<string> {
  const { attempts, firstMs, lastMs, durationMs = 20, before = 0, delayMs, run = null } = of;
  const id = newId('delivery');
  const count = before + attempts;
  await test.database.pool.query(
    `with delivery as (
       insert into deliveries (id, event_id, endpoint_id, endpoint_url, account_id, event_type, object_id, sequence, created_at,
         attempts_count, schedule_from)
       values ($1, $1, $2, '', 'acc', 'email.new', $1, 1, now(), $3, $4)
     )
     insert into pending_deliveries (delivery_id, endpoint_id, object_id, sequence, due_at, waits_for, attempted, workflow_id,
       claimed_at, started_at)
     values ($1, $2, $1, 1, $5, 'retry', true, $6, case when $6::text is not null then now() end, case when $6::text is not null then now() end)`,
    [id, endpointId, count, before, ago(lastMs - delayMs), run],
  );
  const at = (n: number) => (n === count ? ago(lastMs + durationMs) : ago(firstMs));
  for (let n = before + 1; n <= count; n++)
    await test.database.pool.query(
      `insert into delivery_attempts (delivery_id, number, at, duration_ms, error_kind) values ($1, $2, $3, $4, 'status')`,
      [id, n, at(n), durationMs],
    );
  return id;
}

const dueIds = async () => {
  const { rows } = await test.database.pool.query<{ id: string }>(
    'select delivery_id as id from pending_deliveries where due_at <= now()',
  );
  return rows.map(({ id }) => id).sort();
};

/** The endpoint has its first success since its breaker opened; the one before was so long ago. */
const recover = (successMs: number | null) =>
  attemptWaiting({ db: test.database.db, logger }, endpointId, {
    successBefore: successMs === null ? null : ago(successMs),
    retryScheduleMs,
  });

describe('an endpoint that has recovered', () => {
  it('gets what began to fail since it last succeeded, however many attempts were made', async () => {
    const ids = [
      await waiting({ attempts: 1, firstMs: MINUTE, lastMs: 2_000, delayMs: 5_000 }),
      await waiting({ attempts: 6, firstMs: 10 * HOUR, lastMs: HOUR, delayMs: 5 * HOUR }),
      await waiting({ attempts: 5, before: 11, firstMs: 3 * HOUR, lastMs: HOUR, delayMs: 2 * HOUR }),
    ];
    await recover(11 * HOUR);
    expect(await dueIds()).toEqual([...ids].sort());
  });

  it('gets all when it has never succeeded', async () => {
    const id = await waiting({ attempts: 6, firstMs: 10 * HOUR, lastMs: HOUR, delayMs: 5 * HOUR });
    await recover(null);
    expect(await dueIds()).toEqual([id]);
  });

  it('does not get what fails while other calls succeed, except for its first attempts', async () => {
    await waiting({ attempts: 4, firstMs: HOUR, lastMs: MINUTE, delayMs: 30 * MINUTE });
    await waiting({ attempts: 6, firstMs: 10 * HOUR, lastMs: MINUTE, delayMs: 5 * HOUR });
    const early = await waiting({ attempts: 3, firstMs: HOUR, lastMs: MINUTE, delayMs: 5 * MINUTE });
    const again = await waiting({ attempts: 3, before: 11, firstMs: HOUR, lastMs: MINUTE, delayMs: 5 * MINUTE });
    await recover(10 * MINUTE);
    expect(await dueIds()).toEqual([early, again].sort());
  });

  it('does not get before its time what it has put off by `Retry-After`', async () => {
    await waiting({ attempts: 1, firstMs: MINUTE, lastMs: MINUTE, delayMs: HOUR });
    await waiting({ attempts: 2, firstMs: 30 * MINUTE, lastMs: 29 * MINUTE, delayMs: 30 * MINUTE });
    const slow = await waiting({ attempts: 1, firstMs: 33_000, lastMs: 3_000, durationMs: 30_000, delayMs: 6_000 });
    await recover(2 * HOUR);
    expect(await dueIds()).toEqual([slow]);
  });

  it('gets them also where thousands keep their time', async () => {
    for (let n = 0; n < 3; n++) await waiting({ attempts: 3, firstMs: HOUR, lastMs: MINUTE, delayMs: 5 * MINUTE });
    await test.database.pool.query(
      `with delivery as (
         insert into deliveries (id, event_id, endpoint_id, endpoint_url, account_id, event_type, object_id, created_at)
         select 'whc_' || n, 'evt_' || n, $1, '', 'acc', 'email.new', 'email_' || n, now()
         from generate_series(1, 2500) n returning *
       )
       insert into pending_deliveries (delivery_id, endpoint_id, object_id, sequence, due_at, waits_for)
       select id, endpoint_id, object_id, sequence, now() + interval '1 minute', 'retry' from delivery`,
      [endpointId],
    );
    await recover(HOUR);
    expect(await dueIds()).toHaveLength(3);
  });

  it('is given the success before by the results', async () => {
    const recovered: (Date | null)[] = [];
    const store = createResultStore({
      db: test.database.db,
      logger,
      onRecovered: (_id, successBefore) => recovered.push(successBefore),
    });
    const url = 'https://hooks.example.com/';
    await test.database.pool.query('update webhook_endpoints set url = $1', [url]);
    const call = async (httpStatus: number) => {
      const target = { id: endpointId, openUntil: 0, failingSince: new Date() } as DeliveryTarget;
      await store.add(
        {
          ...{ deliveryId: 'whc_x', endpointId, number: 1, at: new Date(), url, httpStatus, responseBody: null },
          ...{ error: null, errorKind: null, durationMs: 1, status: 'delivered', nextAttemptInMs: null },
          ...{ attemptedBy: 'deliver/x', workflowId: null, runs: 1, runId: 'x' },
        },
        target,
      );
    };
    for (let n = 0; n < 10; n++) await call(503);
    await call(200);
    const { rows } = await test.database.pool.query<{ at: Date }>(
      'select last_success_at as at from webhook_endpoints',
    );
    for (let n = 0; n < 10; n++) await call(503);
    await call(200);
    expect(recovered).toEqual([null, rows[0]?.at]);
  });
});

it('an endpoint whose settings were corrected gets all that waits', async () => {
  const ids = [
    await waiting({ attempts: 6, firstMs: 10 * HOUR, lastMs: HOUR, delayMs: 5 * HOUR }),
    await waiting({ attempts: 1, firstMs: MINUTE, lastMs: MINUTE, delayMs: HOUR, run: 'deliver/1' }),
  ];
  const signalled: string[] = [];
  const hurry = async (workflowId: string) => signalled.push(workflowId);
  await attemptWaiting({ db: test.database.db, logger, hurry }, endpointId);
  expect([await dueIds(), signalled]).toEqual([ids.sort(), ['deliver/1']]);
});

describe('a run that cannot be signalled', () => {
  const inRun = (run: string) => waiting({ attempts: 1, firstMs: HOUR, lastMs: MINUTE, delayMs: 2 * HOUR, run });
  const rows = async () =>
    (await test.database.pool.query('select * from pending_deliveries order by delivery_id')).rows as unknown[];

  it('keeps the time of its next attempt, and others are hurried', async () => {
    await inRun('deliver/lost');
    const before = await rows();
    const reached = await inRun('deliver/reached');
    const notStarted = await inRun('deliver/not-started');
    const hurry = async (workflowId: string) => {
      if (workflowId === 'deliver/lost') throw new Error('unavailable');
      return workflowId === 'deliver/reached';
    };
    await attemptWaiting({ db: test.database.db, logger, hurry }, endpointId);
    expect(await dueIds()).toEqual([reached, notStarted].sort());
    expect(await rows()).toEqual(expect.arrayContaining(before));
  });

  it('keeps it after a manual retry too, and is due while it is being signalled', async () => {
    const id = await inRun('deliver/lost');
    const before = await rows();
    let due: string[] = [];
    const signal = async () => {
      due = await dueIds();
      throw new Error('unavailable');
    };
    const client = {
      withDeadline: (_deadline: number, call: () => unknown) => call(),
      workflow: { getHandle: () => ({ signal }) },
    } as unknown as Client;
    await expect(retryDelivery(client, test.database.db, id)).rejects.toThrow('unavailable');
    expect([due, await rows()]).toEqual([[id], before]);
  });
});
