import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, expect, it } from '@jest/globals';
import { updateEndpoint } from '../../../src/db/queries/endpoints.ts';
import { createLogger } from '../../../src/runtime/logger.ts';
import { createSecrets } from '../../../src/security/secrets.ts';
import type { AttemptResult } from '../../../src/webhooks/log/delivery-state.ts';
import { type DeliveryTarget, loadTargets } from '../../../src/webhooks/attempt/due-deliveries.ts';
import { recordOutcomes } from '../../../src/webhooks/attempt/endpoint-health.ts';
import { createResultStore } from '../../../src/webhooks/log/result-store.ts';
import { type TestDatabase, testDatabase } from '../../helpers/servers/postgres.ts';
import { statementsOf } from '../../helpers/assert/statements.ts';
import { storeEndpoint } from '../../helpers/product/stored-endpoint.ts';

/** What results say of endpoints, of many at once. */

const secrets = createSecrets({ current: randomBytes(32) });
let test: TestDatabase;
beforeAll(async () => {
  test = await testDatabase();
});
afterAll(() => test.drop());
beforeEach(async () => {
  await test.database.pool.query('truncate webhook_endpoints');
});

const url = 'https://hooks.example.com/';
const endpoints = (count: number) =>
  Promise.all(Array.from({ length: count }, () => storeEndpoint(test.database, secrets, { url })));

const resultOf = (endpointId: string, n: number): AttemptResult => ({
  deliveryId: `whc_${n}`,
  endpointId,
  number: 1,
  at: new Date(),
  url,
  httpStatus: 503,
  responseBody: null,
  error: null,
  errorKind: 'status',
  durationMs: 1,
  status: 'pending',
  nextAttemptInMs: 1_000,
  attemptedBy: 'deliver/x',
  workflowId: null,
  runs: 1,
  runId: 'x',
});

it('the outcomes of several endpoints are stored by one statement', async () => {
  const ids = await endpoints(20);
  const logger = createLogger('silent', 'test');
  const store = createResultStore({ db: test.database.db, logger, onRecovered: () => {} });
  const healthy = { failuresInARow: 0, breakerUntil: null, failingSince: null, lastSuccessAt: null };
  const target = { ...healthy, loadedAt: performance.now() } as DeliveryTarget;
  const statements = await statementsOf(async () => {
    await Promise.all(ids.map((id, n) => store.add(resultOf(id, n), { ...target, id })));
  });
  expect(statements.filter((text) => text.includes('update webhook_endpoints'))).toHaveLength(1);
  const { rows } = await test.database.pool.query('select failures_in_a_row as n from webhook_endpoints');
  expect(rows).toEqual(ids.map(() => ({ n: 1 })));
});

it('each endpoint is judged by its own outcomes; a deleted one is left out', async () => {
  const [well = '', failing = '', back = '', mixed = ''] = await endpoints(4);
  const { db } = test.database;
  const away = (count: number) => Array.from({ length: count }, () => 'away' as const);
  await recordOutcomes(db, [{ endpointId: back, url, outcomes: away(10) }]);
  const stored = await recordOutcomes(db, [
    { endpointId: well, url, outcomes: ['success'] },
    { endpointId: failing, url, outcomes: away(10) },
    { endpointId: back, url, outcomes: ['success'] },
    { endpointId: mixed, url, outcomes: ['success', 'refused', 'away', 'away'] },
    { endpointId: 'we_gone', url, outcomes: away(3) },
  ]);
  expect([...stored.keys()].sort()).toEqual([well, failing, back, mixed].sort());
  expect(stored.get(well)).toMatchObject({ failuresInARow: 0, change: undefined, lastSuccessAt: expect.any(Date) });
  expect(stored.get(failing)).toMatchObject({ failuresInARow: 10, change: 'opened', breakerUntil: expect.any(Date) });
  expect(stored.get(back)).toMatchObject({ failuresInARow: 0, change: 'closed', breakerUntil: null });
  expect(stored.get(mixed)).toMatchObject({ failuresInARow: 2, change: undefined, failingSince: expect.any(Date) });
  const { rows } = await test.database.pool.query<{ id: string; n: number }>(
    'select id, failed_attempts as n from webhook_endpoints where failed_attempts > 0',
  );
  expect(new Map(rows.map(({ id, n }) => [id, n]))).toEqual(
    new Map([
      [failing, 10],
      [mixed, 3],
    ]),
  );
});

it('an endpoint that has got another URL is not judged by calls of the previous one', async () => {
  const [id = ''] = await endpoints(1);
  const { db, pool } = test.database;
  const away = (count: number) => Array.from({ length: count }, () => 'away' as const);
  await recordOutcomes(db, [{ endpointId: id, url, outcomes: away(9) }]);
  const next = 'https://hooks.example.com/next';
  await updateEndpoint(db, secrets, id, { url: next });
  const stored = await recordOutcomes(db, [
    { endpointId: id, url, outcomes: away(10) },
    { endpointId: id, url: next, outcomes: away(1) },
  ]);
  expect(stored.get(id)).toMatchObject({ url: next, failuresInARow: 1, breakerUntil: null });
  expect(await recordOutcomes(db, [{ endpointId: id, url, outcomes: ['success'] }])).toEqual(new Map());
  const { rows } = await pool.query('select failures_in_a_row as n, failed_attempts as failed from webhook_endpoints');
  expect(rows).toEqual([{ n: 1, failed: 1 }]);
});

it('the breaker of a new URL stays closed when calls of the previous one fail late', async () => {
  const [id = ''] = await endpoints(1);
  const store = createResultStore({
    db: test.database.db,
    logger: createLogger('silent', 'test'),
    onRecovered: () => {},
  });
  const target = { id, openUntil: 0, failingSince: null, loadedAt: performance.now() } as DeliveryTarget;
  await updateEndpoint(test.database.db, secrets, id, { url: 'https://hooks.example.com/next' });
  await Promise.all(Array.from({ length: 12 }, (_, n) => store.add(resultOf(id, n), target)));
  expect(store.openUntil(target)).toBe(0);
  const { rows } = await test.database.pool.query('select breaker_until from webhook_endpoints');
  expect(rows).toEqual([{ breaker_until: null }]);
});

it('an endpoint has recovered with its first success since the breaker opened, also when a refused call closed it', async () => {
  const [id = ''] = await endpoints(1);
  const recovered: string[] = [];
  const logger = createLogger('silent', 'test');
  const store = createResultStore({ db: test.database.db, logger, onRecovered: (of) => recovered.push(of) });
  const target = () => ({ id, openUntil: 0, failingSince: new Date(), loadedAt: performance.now() }) as DeliveryTarget;
  const answer = (httpStatus: number) => store.add({ ...resultOf(id, 0), httpStatus }, target());
  for (let n = 0; n < 10; n++) await answer(503);
  await answer(404);
  const { rows } = await test.database.pool.query('select breaker_until as until from webhook_endpoints');
  expect([rows, recovered]).toEqual([[{ until: null }], []]);
  await answer(200);
  expect(recovered).toEqual([id]);
  await answer(200);
  expect(recovered).toEqual([id]);
});

it('a target that was loaded after the last results counts, also when the clock of the worker was set back', async () => {
  const [id = ''] = await endpoints(1);
  const logger = createLogger('silent', 'test');
  const store = createResultStore({ db: test.database.db, logger, onRecovered: () => {} });
  const load = async () => (await loadTargets(test.database.db, [id])).get(id) as DeliveryTarget;
  const before = await load();
  for (let n = 0; n < 10; n++) await store.add(resultOf(id, n), before);
  expect(store.openUntil(before)).toBeGreaterThan(performance.now());
  // another worker has closed it
  await recordOutcomes(test.database.db, [{ endpointId: id, url, outcomes: ['success'] }]);
  const { Date: RealDate } = globalThis;
  globalThis.Date = class extends RealDate {
    constructor(...given: [] | [number | string]) {
      super(given[0] ?? RealDate.now() - 600_000);
    }
  } as DateConstructor;
  try {
    expect(store.openUntil(await load())).toBe(0);
  } finally {
    globalThis.Date = RealDate;
  }
});
