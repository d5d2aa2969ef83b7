import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import {
  createFinishedRuns,
  FINISHED_RUNS_CHANNEL,
  type FinishedRuns,
  isRunFinished,
  recordFinishedRun,
} from '../../../src/db/coordination/finished-runs.ts';
import { listenTo } from '../../../src/db/driver/listen.ts';
import { deleteFinishedRunsBefore } from '../../../src/maintenance/retention.ts';
import { createLogger } from '../../../src/runtime/logger.ts';
import { type TestDatabase, testDatabase } from '../../helpers/servers/postgres.ts';

/** Notifications of finished runs, sent by a real Postgres. */

let test: TestDatabase;
const closing: (() => Promise<void>)[] = [];
beforeAll(async () => {
  test = await testDatabase();
});
afterAll(async () => {
  await Promise.all(closing.map((close) => close()));
  await test.drop();
});

/** One API process that listens. */
async function startProcess(): Promise<FinishedRuns> {
  const finished = createFinishedRuns();
  await new Promise<void>((listening) => {
    const receive = (workflowId: string | undefined) => {
      if (workflowId === undefined) listening();
      finished.receive(workflowId);
    };
    const listener = listenTo(test.url, { [FINISHED_RUNS_CHANNEL]: receive }, createLogger('silent', 'test'));
    closing.push(() => listener.close());
  });
  return finished;
}

const never = () => new AbortController().signal;
const newRun = () => ({ workflowId: `change/${randomUUID()}`, runId: randomUUID() });

it('callers in every process are notified when the work of their run is stored, and no others', async () => {
  const processes = [await startProcess(), await startProcess()];
  const [own, other, given] = [newRun(), newRun(), newRun()];
  const notified: string[] = [];
  const wait = async (finished: FinishedRuns, { workflowId }: { workflowId: string }, over = never()) => {
    await finished.waitFor(workflowId, over);
    notified.push(workflowId);
  };
  const waiting = processes.map((finished) => wait(finished, own));
  const givenUp = new AbortController();
  void wait(processes[0]!, other);
  void wait(processes[1]!, given, givenUp.signal);
  givenUp.abort();
  const { db } = test.database;
  await recordFinishedRun(db, given);
  await recordFinishedRun(db, own);
  await Promise.all(waiting);
  expect(notified).toEqual([own.workflowId, own.workflowId]);
  expect(await Promise.all([own, other, given].map((run) => isRunFinished(db, run)))).toEqual([true, false, true]);
});

it('a rolled back transaction notifies no caller', async () => {
  const finished = await startProcess();
  const [undone, done] = [newRun(), newRun()];
  const notified: string[] = [];
  void finished.waitFor(undone.workflowId, never()).then(() => notified.push('undone'));
  const { db } = test.database;
  await db
    .transaction(async (tx) => {
      await recordFinishedRun(tx, undone);
      throw new Error('no commit');
    })
    .catch(() => {});
  const isStored = finished.waitFor(done.workflowId, never());
  await recordFinishedRun(db, done);
  // notifications come in the order of their commits
  await isStored;
  expect(notified).toEqual([]);
  expect(await isRunFinished(db, undone)).toBe(false);
});

it('a further run of the same workflow counts separately; expired rows are deleted', async () => {
  const { db, pool } = test.database;
  const first = newRun();
  const again = { ...first, runId: randomUUID() };
  await recordFinishedRun(db, first);
  await recordFinishedRun(db, first);
  expect(await isRunFinished(db, again)).toBe(false);
  await recordFinishedRun(db, again);
  await pool.query(`update finished_runs set finished_at = now() - interval '8 days' where run_id = $1`, [first.runId]);
  expect(await deleteFinishedRunsBefore(db, new Date(Date.now() - 7 * 24 * 60 * 60_000))).toBe(1);
  expect([await isRunFinished(db, first), await isRunFinished(db, again)]).toEqual([false, true]);
});
