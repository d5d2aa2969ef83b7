import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { getEndpoint } from '../../../src/db/queries/endpoints.ts';
import { recordEvents } from '../../../src/db/outbox.ts';
import { newId } from '../../../src/new-id.ts';
import { createSecrets } from '../../../src/security/secrets.ts';
import { disableFailingEndpoints } from '../../../src/webhooks/log/auto-disable.ts';
import { type TestDatabase, testDatabase } from '../../helpers/servers/postgres.ts';
import { storeAccount } from '../../helpers/product/stored-account.ts';
import { storeEndpoint } from '../../helpers/product/stored-endpoint.ts';

const secrets = createSecrets({ current: randomBytes(32) });
const NOW = new Date('2026-06-10T12:00:00.000Z');
const hoursAgo = (hours: number) => new Date(NOW.getTime() - hours * 3_600_000);

let test: TestDatabase;
let account: string;
beforeAll(async () => {
  test = await testDatabase();
  account = await storeAccount(test.database);
});
afterAll(() => test?.drop());

interface Failing {
  /** hours ago */
  since: number;
  attempts: number;
  /** hours after the first attempt */
  span?: number;
  success?: number;
  enabled?: boolean;
}

/** An endpoint that fails, and whose last attempt was `span` hours after the first. */
async function failing({ since, attempts, span = 30, success, enabled = true }: Failing): Promise<string> {
  const { db, pool } = test.database;
  const id = await storeEndpoint(test.database, secrets, { enabled });
  const event = { type: 'email.new', objectId: newId('email'), data: {}, createdAt: NOW } as const;
  await db.transaction((tx) => recordEvents(tx, account, [event]));
  await pool.query(`update deliveries set last_attempt_at = $2 where endpoint_id = $1`, [id, hoursAgo(since - span)]);
  await pool.query(
    'update webhook_endpoints set failing_since = $2, failed_attempts = $3, last_success_at = $4 where id = $1',
    [id, hoursAgo(since), attempts, success === undefined ? null : hoursAgo(success)],
  );
  return id;
}

const ids = (found: { id: string }[]) => found.map(({ id }) => id);
const stateOf = async (id: string) => {
  const endpoint = await getEndpoint(test.database.db, secrets, id);
  return [endpoint?.enabled, endpoint?.disabled_reason, endpoint?.disables_at];
};

describe('an endpoint that fails', () => {
  it('is disabled after 5 days without a success, with 20 failed attempts over a day', async () => {
    const id = await failing({ since: 121, attempts: 20, success: 122 });
    const { disabled } = await disableFailingEndpoints(test.database.db, NOW);
    expect(disabled).toEqual([{ id, failingSince: hoursAgo(121), failedAttempts: 20 }]);
    expect(await stateOf(id)).toEqual([false, 'failing', null]);
    expect(await disableFailingEndpoints(test.database.db, NOW)).toEqual({ disabled: [], warned: [] });
  });

  it('causes one warning, from the third day on', async () => {
    const id = await failing({ since: 73, attempts: 25 });
    const [first, second] = [
      await disableFailingEndpoints(test.database.db, NOW),
      await disableFailingEndpoints(test.database.db, NOW),
    ];
    expect([ids(first.warned), ids(first.disabled), ids(second.warned)]).toEqual([[id], [], []]);
    expect(await stateOf(id)).toEqual([true, null, new Date(hoursAgo(73).getTime() + 120 * 3_600_000).toISOString()]);
    // it recovered, and fails anew
    await test.database.pool.query('update webhook_endpoints set failing_since = $2, warned_at = $3 where id = $1', [
      id,
      hoursAgo(74),
      hoursAgo(200),
    ]);
    expect((await stateOf(id))[2]).toBeNull();
    expect(ids((await disableFailingEndpoints(test.database.db, NOW)).warned)).toEqual([id]);
  });

  it.each<[string, Failing]>([
    ['fails for less than 3 days', { since: 71, attempts: 100 }],
    ['failed fewer than 20 times', { since: 200, attempts: 19 }],
    ['had a success in between', { since: 200, attempts: 50, success: 10 }],
    ['is disabled already', { since: 200, attempts: 50, enabled: false }],
  ])('is left alone when it %s', async (_, options) => {
    const id = await failing(options);
    const { disabled, warned } = await disableFailingEndpoints(test.database.db, NOW);
    expect([...ids(disabled), ...ids(warned)]).not.toContain(id);
  });

  it('is not disabled for failures within one hour', async () => {
    const id = await failing({ since: 200, attempts: 50, span: 1 });
    expect(ids((await disableFailingEndpoints(test.database.db, NOW)).disabled)).not.toContain(id);
  });
});
