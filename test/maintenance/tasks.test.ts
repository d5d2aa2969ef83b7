import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { sql } from 'drizzle-orm';
import { announceWorker, forgetWorker } from '../../src/db/coordination/workers.ts';
import { createLiveWorkers } from '../../src/maintenance/live-workers.ts';
import { startTasks, type Task } from '../../src/maintenance/tasks.ts';
import { createLogger } from '../../src/runtime/logger.ts';
import { waitFor } from '../helpers/assert/wait.ts';
import { testDatabase, type TestDatabase } from '../helpers/servers/postgres.ts';

const logger = createLogger('silent', 'test');

let test: TestDatabase;
beforeAll(async () => {
  test = await testDatabase();
});
afterAll(() => test.drop());
beforeEach(() => test.database.db.execute(sql`delete from workers`));

describe('the leader', () => {
  const workerOf = (id: string) => createLiveWorkers(test.database.db, id);

  async function leadersOf(ids: string[]): Promise<string[]> {
    const leaders: string[] = [];
    for (const id of ids) {
      const workers = workerOf(id);
      await workers.look();
      if (workers.leads()) leaders.push(id);
    }
    return leaders;
  }

  it('is the worker that started first, and the next one when it is lost', async () => {
    const { db } = test.database;
    for (const id of ['c', 'a', 'b']) await announceWorker(db, id, 0);
    expect(await leadersOf(['a', 'b', 'c'])).toEqual(['c']);
    await forgetWorker(db, 'c');
    expect(await leadersOf(['a', 'b', 'c'])).toEqual(['a']);
  });

  it('is not a worker that has stopped announcing itself', async () => {
    const { db } = test.database;
    for (const id of ['first', 'second']) await announceWorker(db, id, 0);
    await db.execute(sql`update workers set seen_at = now() - interval '1 minute' where id = 'first'`);
    expect(await leadersOf(['first', 'second'])).toEqual(['second']);
  });

  it('is one of two that started at the same moment', async () => {
    const { db } = test.database;
    await db.execute(sql`insert into workers (id, seen_at, started_at, watches)
      select id, now(), now(), 0 from unnest(array['b', 'a']) id`);
    expect(await leadersOf(['a', 'b'])).toEqual(['a']);
  });

  it('counts this worker before any announcement', async () => {
    const workers = workerOf('own');
    await workers.look();
    expect([workers.count(), workers.leads()]).toEqual([1, false]);
  });
});

describe('tasks', () => {
  it('of a worker always run, those of the installation while this worker leads', async () => {
    const runs = { worker: 0, installation: 0 };
    let leads = false;
    const task = (scope: Task['scope']): Task => ({
      name: scope,
      everyMs: 5,
      scope,
      run: async () => void (runs[scope] += 1),
    });
    const started = startTasks([task('worker'), task('installation')], () => leads, logger);
    try {
      await waitFor(() => runs.worker >= 5);
      expect(runs.installation).toBe(0);
      leads = true;
      await waitFor(() => runs.installation >= 2);
    } finally {
      await started.stop();
    }
  });

  it('that fail are logged with their name and run again', async () => {
    const lines: object[] = [];
    const child = (fields: object) => ({
      warn: (more: object, text: string) => lines.push({ ...fields, ...more, text }),
    });
    let runs = 0;
    const run = async () => {
      runs += 1;
      throw new Error('out of order');
    };
    const failing: Task = { name: 'sweep', everyMs: 5, scope: 'worker', run };
    const started = startTasks([failing], () => false, { child } as unknown as typeof logger);
    try {
      await waitFor(() => runs >= 2);
    } finally {
      await started.stop();
    }
    expect(lines[0]).toMatchObject({ task: 'sweep', text: 'maintenance task failed' });
  });
});
