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

/** What callers learn of runs that have done their work, by Postgres itself. */

let test: TestDatabase;
const closing: (() => Promise<void>)[] = [];
beforeAll(async () => {
  test = await testDatabase();
});
afterAll(async () => {
  await Promise.all(closing.map((close) => close()));
  await test.drop();
});

/** One process of the API, which listens. */
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

it('who waits for a run is notified when its work is stored, in every process, and nobody else', async () => {
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

it('nobody is notified of what is not committed', async () => {
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

it('a run of the same workflow that was begun anew is another one; a row is deleted after its time', async () => {
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
