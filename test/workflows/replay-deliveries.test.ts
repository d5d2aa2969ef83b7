import { randomBytes } from 'node:crypto';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { createReplayActivities } from '../../src/activities/replay.ts';
import { recordEvents } from '../../src/db/outbox.ts';
import { createReplay, getReplay } from '../../src/db/queries/replays.ts';
import { createLogger } from '../../src/runtime/logger.ts';
import { newId } from '../../src/new-id.ts';
import { createSecrets } from '../../src/security/secrets.ts';
import { createLostRunLooks } from '../../src/maintenance/lost-runs.ts';
import { cancelReplayRun, startReplayRun } from '../../src/webhooks/log/replay-runs.ts';
import { QUEUES, replayWorkflowId } from '../../src/workflows/names.ts';
import { type TestDatabase, testDatabase } from '../helpers/servers/postgres.ts';
import { storeAccount } from '../helpers/product/stored-account.ts';
import { testClient, type TestClient } from '../helpers/product/temporal-workers.ts';
import { waitFor } from '../helpers/assert/wait.ts';
import { storeEndpoint } from '../helpers/product/stored-endpoint.ts';
import { queueAsLogged } from '../helpers/assert/queue.ts';

/** More than a replay queues at a time. */
const MANY = 450;
const AT_ONCE = 200;
const logger = createLogger('silent', 'test');

let temporal: TestClient;
let test: TestDatabase;
let endpointId: string;
let stopWork: (() => Promise<void>) | undefined;
/** how often each delivery was attempted by `attemptSome` */
let attempts: Map<string, number>;

beforeAll(async () => {
  temporal = await testClient();
});
afterAll(() => temporal?.close());
beforeEach(async () => {
  test = await testDatabase();
  attempts = new Map();
  const { db, pool } = test.database;
  const account = await storeAccount(test.database);
  const secrets = createSecrets({ current: randomBytes(32) });
  endpointId = await storeEndpoint(test.database, secrets);
  const event = () =>
    ({ type: 'email.new', objectId: newId('email'), data: { email: {} }, createdAt: new Date() }) as const;
  await db.transaction((tx) => recordEvents(tx, account, Array.from({ length: MANY }, event)));
  await pool.query(`update deliveries set status = 'skipped', workflow_id = 'deliver/' || id`);
  await queueAsLogged(test.database);
});
afterEach(async () => {
  await stopWork?.();
  stopWork = undefined;
  await test.drop();
});

const work = async () => {
  stopWork = await temporal.work(createReplayActivities({ db: test.database.db }), [QUEUES.webhooks]);
};
const begin = async () => {
  const id = newId('replay');
  await createReplay(test.database.db, { id, endpointId, filter: {} });
  await startReplayRun(temporal.client, { id, endpointId });
  return id;
};
const handle = (id: string) => temporal.client.workflow.getHandle(replayWorkflowId(id));
const replay = (id: string) => getReplay(test.database.db, id);

/** Attempts up to `count` of what waits, as the relay and a run would; how many. */
async function attemptSome(count: number): Promise<number> {
  const { rows } = await test.database.pool.query<{ id: string; waiting: number }>(
    `with w as (
       select delivery_id as id, (count(*) over ())::int as waiting from pending_deliveries
       where workflow_id is null order by id limit $1
     ), gone as (delete from pending_deliveries where delivery_id in (select id from w))
     update deliveries d set status = 'delivered', attempts_count = attempts_count + 1, workflow_id = 'deliver/again'
     from w where d.id = w.id returning d.id, w.waiting`,
    [count],
  );
  for (const { id, waiting } of rows) {
    expect(waiting).toBeLessThanOrEqual(AT_ONCE);
    attempts.set(id, (attempts.get(id) ?? 0) + 1);
  }
  return rows.length;
}

async function attemptAll(): Promise<void> {
  await waitFor(
    async () => {
      await attemptSome(90);
      return attempts.size === MANY;
    },
    { timeoutMs: 60_000, everyMs: 20, what: 'every delivery to be attempted' },
  );
  expect([...attempts.values()].every((times) => times === 1)).toBe(true);
}

describe('a replay', () => {
  it('feeds the relay until everything was delivered', async () => {
    await work();
    const id = await begin();
    await attemptAll();
    expect(await handle(id).result()).toMatchObject({ status: 'completed', total: MANY, delivered: MANY, pending: 0 });
    const { typedSearchAttributes, historyLength } = await handle(id).describe();
    expect(typedSearchAttributes.getAll().map(({ value }) => value)).toContain(endpointId);
    expect(historyLength).toBeLessThan(200);
    expect(await replay(id)).toMatchObject({ status: 'completed', delivered: MANY });
  }, 90_000);

  it('continues with another worker, and attempts nothing twice', async () => {
    await work();
    const id = await begin();
    await waitFor(async () => (await attemptSome(30)) > 0, { timeoutMs: 30_000 });
    await stopWork?.();
    await attemptSome(100);
    await work();
    await attemptAll();
    await handle(id).result();
  }, 90_000);

  it('is started again when its run was ended by an operator', async () => {
    const id = await begin();
    await handle(id).terminate();
    const { db } = test.database;
    const { replays } = createLostRunLooks({ db, client: temporal.client, logger, heartbeatTimeoutMs: 4_000 });
    await replays();
    await replays();
    await work();
    await attemptAll();
    expect(await handle(id).result()).toMatchObject({ status: 'completed' });
  }, 90_000);

  it('restores deliveries that were not attempted when its workflow is cancelled', async () => {
    await work();
    const id = await begin();
    await waitFor(async () => (await attemptSome(30)) > 0, { timeoutMs: 30_000 });
    await handle(id).cancel();
    await expect(handle(id).result()).rejects.toMatchObject({ cause: { name: 'CancelledFailure' } });
    expect(await replay(id)).toMatchObject({ status: 'cancelled', delivered: 30, pending: 0 });
    const { rows } = await test.database.pool.query(
      'select status, count(*)::int from deliveries group by 1 order by 1',
    );
    expect(rows).toEqual([
      { status: 'delivered', count: 30 },
      { status: 'skipped', count: MANY - 30 },
    ]);
  }, 90_000);

  it('ends its workflow when the API cancels it', async () => {
    await work();
    const id = await begin();
    await waitFor(async () => (await attemptSome(30)) > 0, { timeoutMs: 30_000 });
    const deps = { client: temporal.client, db: test.database.db, logger };
    await cancelReplayRun(deps, id);
    await cancelReplayRun(deps, id);
    await handle(id)
      .result()
      .catch(() => undefined);
    expect((await handle(id).describe()).status.name).not.toBe('RUNNING');
    expect(await replay(id)).toMatchObject({ status: 'cancelled', delivered: 30, pending: 0 });
  }, 90_000);
});
