import { afterAll, beforeAll, it } from '@jest/globals';
import { startTcpProxy, type TcpProxy } from '../../helpers/fakes/tcp-proxy.ts';
import { type Product, startProduct } from '../../helpers/product/product.ts';
import { type TestDatabase, testDatabase } from '../../helpers/servers/postgres.ts';
import { waitFor } from '../../helpers/assert/wait.ts';

/** The database behind a network in which its host can vanish: no packet comes back, no connection is closed. */

let database: TestDatabase;
let proxy: TcpProxy;
let product: Product;

beforeAll(async () => {
  database = await testDatabase({ max: 1 });
  const url = new URL(database.url);
  proxy = await startTcpProxy(Number(url.port));
  url.host = `127.0.0.1:${proxy.port}`;
  product = await startProduct({ DATABASE_URL: url.href });
}, 120_000);

afterAll(async () => {
  // first: while the frozen connection of a client that has not signed in is open, Postgres drops no database
  await proxy?.close();
  await product?.stop();
  await database?.drop();
});

const announcedAt = async () =>
  (await database.database.pool.query<{ at: Date }>('select max(seen_at) as at from workers')).rows[0]?.at.getTime() ??
  0;

it('a worker gives up statements whose database has vanished within seconds, and works on when it is back', async () => {
  proxy.silence();
  const hasFailed = async () => /"task":"announce this worker".*"maintenance task failed"/.test(await product.logs());
  await waitFor(hasFailed, { timeoutMs: 30_000, what: 'the announcement to fail' });
  const before = await announcedAt();
  proxy.restore();
  await waitFor(async () => (await announcedAt()) > before, {
    timeoutMs: 30_000,
    what: 'the worker to announce itself',
  });
}, 90_000);
