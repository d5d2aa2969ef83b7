import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { MockActivityEnvironment } from '@temporalio/testing';
import { createDeliverActivities } from '../../../src/activities/deliver.ts';
import { ERASED } from '../../../src/db/coordination/removal.ts';
import { recordEvents } from '../../../src/db/outbox.ts';
import { createLogger } from '../../../src/runtime/logger.ts';
import { createSecrets } from '../../../src/security/secrets.ts';
import { createCallSlots } from '../../../src/webhooks/attempt/call-slots.ts';
import { listDueLines } from '../../../src/webhooks/dispatch/due-lines.ts';
import { claimOnce } from '../../helpers/assert/queue.ts';
import { storeAccount } from '../../helpers/product/stored-account.ts';
import { storeEndpoint } from '../../helpers/product/stored-endpoint.ts';
import { type TestDatabase, testDatabase } from '../../helpers/servers/postgres.ts';

/** The run that probes an endpoint may have nothing to call. */

const secrets = createSecrets({ current: randomBytes(32) });
let test: TestDatabase;
beforeAll(async () => {
  test = await testDatabase();
});
afterAll(() => test.drop());

it('a probe that makes no call leaves it to the next delivery, at once', async () => {
  const { db, pool } = test.database;
  const accountId = await storeAccount(test.database);
  await storeEndpoint(test.database, secrets, { triggerEvents: ['email.new'] });
  await pool.query(`update webhook_endpoints set failures_in_a_row = 10, breaker_until = now() - interval '1 second'`);
  const called: string[] = [];
  const activities = createDeliverActivities({
    db,
    secrets,
    poster: {
      post: async ({ body }) => {
        called.push((JSON.parse(body.toString()) as { data: { id: string } }).data.id);
        return {
          httpStatus: 503,
          responseBody: '',
          retryAfter: undefined,
          error: null,
          errorKind: null,
          durationMs: 1,
        };
      },
    },
    slots: createCallSlots(() => 10),
    logger: createLogger('silent', 'test'),
    webhook: { retryScheduleMs: [60_000], timeoutMs: 5_000 },
  });
  const happened = ['email_erased', 'email_whole'].map((id) => ({
    ...({ type: 'email.new', objectId: id, data: { id } } as const),
    createdAt: new Date(),
  }));
  await db.transaction((tx) => recordEvents(tx, accountId, happened));
  await pool.query(`update events set data = $1 where object_id = 'email_erased'`, [ERASED]);
  await pool.query(`update pending_deliveries set due_at = now() - interval '1 hour' where object_id = 'email_erased'`);
  const probe = async () => {
    const [run] = await claimOnce(db);
    const workflowId = run?.workflowId ?? '';
    const environment = new MockActivityEnvironment({ workflowExecution: { workflowId, runId: workflowId } });
    const deliveryIds = run?.deliveries.map(({ id }) => id) ?? [];
    await environment.run(activities.attemptDeliveries, { deliveryIds, beginWithinMs: 60_000 });
    return run?.deliveries[0]?.objectId;
  };
  expect([await probe(), called]).toEqual(['email_erased', []]);
  expect((await listDueLines(db)).lines).toMatchObject([{ isProbe: true }]);
  expect([await probe(), called]).toEqual(['email_whole', ['email_whole']]);
});
