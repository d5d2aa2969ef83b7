import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { createApiKey } from '../../src/db/access/api-keys.ts';
import { serverPart, workerPart } from '../../src/embedded/product-parts.ts';
import { createSupervisor, type Supervisor } from '../../src/embedded/supervise.ts';
import { waitFor } from '../helpers/assert/wait.ts';
import { builtEntry } from '../helpers/product/built.ts';
import { freePort } from '../helpers/servers/free-port.ts';
import { type TestDatabase, testDatabase } from '../helpers/servers/postgres.ts';

describe('started while Temporal is away', () => {
  const root = join(builtEntry('server'), '..', '..');
  let test: TestDatabase;
  let dir: string;
  let supervisor: Supervisor;
  let settings: Record<string, string>;

  beforeEach(async () => {
    test = await testDatabase({ max: 1 });
    dir = await mkdtemp(join(tmpdir(), 'product-parts-'));
    supervisor = createSupervisor({ logDir: dir, printLine: () => {} });
    settings = {
      DATABASE_URL: test.url,
      TEMPORAL_ADDRESS: `127.0.0.1:${await freePort()}`,
      ENCRYPTION_KEY: randomBytes(32).toString('base64'),
      DATA_DIR: dir,
      PORT: String(await freePort()),
      WORKER_METRICS_PORT: String(await freePort()),
    };
  });
  afterEach(async () => {
    await supervisor.stop();
    await test.drop();
    await rm(dir, { recursive: true });
  });
  const given = () => ({ env: { PATH: process.env['PATH'] ?? '' }, settings: Promise.resolve(settings) });

  it('an API process counts as ready, and serves reads', async () => {
    const url = `http://127.0.0.1:${settings['PORT']}`;
    await supervisor.start(serverPart(root, given(), async () => url));
    expect((await fetch(`${url}/ready`)).status).toBe(503);
    const { key } = await createApiKey(test.database.db, { name: 'test', expiresAt: null });
    expect((await fetch(`${url}/api/v1/accounts`, { headers: { 'X-API-KEY': key } })).status).toBe(200);
  }, 90_000);

  it('a worker serves its metrics, and says that it takes no work', async () => {
    const started = supervisor.start(workerPart(root, given()));
    const statusOf = (path: string) =>
      fetch(`http://127.0.0.1:${settings['WORKER_METRICS_PORT']}${path}`).then(
        ({ status }) => status,
        () => undefined,
      );
    await waitFor(async () => (await statusOf('/metrics')) === 200, { timeoutMs: 30_000, what: 'its metrics' });
    expect(await statusOf('/ready')).toBe(503);
    await supervisor.stop();
    await started;
  }, 60_000);
});
