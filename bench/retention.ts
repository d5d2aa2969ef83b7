import { deleteDeliveriesBefore, deleteEventsBefore } from '../src/maintenance/retention.ts';
import { fillLog } from './webhooks/log.ts';
import { type Bounds, type Figures, percentile } from './figures.ts';
import { cpuMsOf } from './ground/process-tree.ts';
import { type Bench, databaseClient } from './ground/setup.ts';
import { endpoint, type Ground, hook, ok, prepare, steadily } from './ground/webhook-ground.ts';

const RECORDS = 1_000_000;
const RECORDS_SHORT = 50_000;
const LIVE = { seconds: 30, perSecond: 20 };
/** The log is filled over 29 days: half of it is older than this. */
const DAYS = 14.5;

/** Half of a log of a million records expires together, and is deleted as the hourly round does, beside live events. */
export const retention = {
  title: `deletion of the older half of ${RECORDS} deliveries and events, with ${LIVE.perSecond} live events/s`,
  bounds: { 'longest statement, ms': { most: 1_000 }, 'live p99, ms': { most: 1_000 } } satisfies Bounds,
  rounds: 1,
  prepare: async (bench: Bench): Promise<Ground> => {
    const ground = await prepare(bench);
    await fillLog(await databaseClient(bench), bench.short ? RECORDS_SHORT : RECORDS);
    return ground;
  },
  round: async (bench: Bench, ground: Ground): Promise<Figures> => {
    const receiver = await hook(ok);
    const { id } = await endpoint(bench, receiver.url);
    // the first seconds of a process are slower
    await steadily(ground, receiver, LIVE);
    const alone = await steadily(ground, receiver, LIVE);
    const sizeBefore = await sizeOf(ground);
    const cpuBefore = cpuMsOf(bench.pid);
    const deletion = deleteExpired(ground);
    const live = await steadily(ground, receiver, LIVE);
    const deleted = await deletion;
    const cpu = cpuMsOf(bench.pid) - cpuBefore;
    await ground.database.pool.query('vacuum deliveries, delivery_attempts, events');
    await bench.api.request('DELETE', `/webhooks/endpoints/${id}`);
    await receiver.close();
    return {
      'rows deleted': deleted.rows,
      'rows/s': (deleted.rows / deleted.ms) * 1000,
      'longest statement, ms': deleted.longestMs,
      'CPU ms per 1,000 rows': (cpu / deleted.rows) * 1000,
      'live p50 alone, ms': percentile(alone, 0.5),
      'live p50, ms': percentile(live, 0.5),
      'live p99 alone, ms': percentile(alone, 0.99),
      'live p99, ms': percentile(live, 0.99),
      'tables before, MiB': sizeBefore,
      'tables after, MiB': await sizeOf(ground),
    };
  },
};

/** Deletes as the activity does: statements in sequence, until nothing is left. */
async function deleteExpired({ database }: Ground): Promise<{ rows: number; ms: number; longestMs: number }> {
  const before = new Date(Date.now() - DAYS * 86_400_000);
  const began = performance.now();
  let [rows, longestMs] = [0, 0];
  for (const deleteBefore of [deleteDeliveriesBefore, deleteEventsBefore]) {
    for (let deleted = -1; deleted !== 0; rows += deleted) {
      const statementAt = performance.now();
      deleted = await deleteBefore(database.db, before);
      longestMs = Math.max(longestMs, performance.now() - statementAt);
    }
  }
  return { rows, ms: performance.now() - began, longestMs };
}

/** Size of the two tables with their indexes, MiB. */
async function sizeOf({ database }: Ground): Promise<number> {
  const { rows } = await database.pool.query<{ mib: number }>(
    `select (pg_total_relation_size('deliveries') + pg_total_relation_size('events'))::float8 / 1048576 as mib`,
  );
  return rows[0]?.mib ?? Number.NaN;
}
