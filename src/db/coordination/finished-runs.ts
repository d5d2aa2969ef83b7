import { setMaxListeners } from 'node:events';
import { type SQL, sql } from 'drizzle-orm';
import type { Queryable } from '../driver/client.ts';
import { statement } from '../driver/statement.ts';
import { finishedRuns } from '../schema/index.ts';
import type { Writes } from '../driver/writes.ts';

/*
 * A caller gets its response when the change is stored. The execution that made it completes a little later, and may run
 * again when its worker is killed in between, possibly after later changes. An execution with a row here has done its
 * work, and does nothing the second time.
 */

/** Channel of LISTEN/NOTIFY: the id of a workflow whose work is stored. */
export const FINISHED_RUNS_CHANNEL = 'finished_runs';

/** A run of a workflow, as its activities know it. */
export interface RunRef {
  workflowId: string;
  runId: string;
}

/** Records that a run has done its work, and notifies the callers that wait for it. */ export async function recordFinishedRun(
  db: Queryable,
  { workflowId, runId }: RunRef,
): Promise<void> {
  await db.execute(finishedRun(workflowId, runId));
}

const finishedRun = statement(
  'record_finished_run',
  (workflowId: string, runId: string) => sql`with finished as (${insertion(runId)}) select ${notification(workflowId)}`,
);

/**
 * Records, in the statement of other changes, that a run has done its work, and notifies the callers that wait for it.
 */
export function finishRun(writes: Writes, { workflowId, runId }: RunRef): void {
  writes.add('finished', insertion(runId), { table: finishedRuns });
  writes.select('notified', notification(workflowId));
}

function insertion(runId: string): SQL {
  return sql`insert into finished_runs (run_id) values (${runId}) on conflict do nothing`;
}

/** An SQL value for the statement that stores the work of a run: notifies the callers that wait for the workflow. */
export function notification(workflowId: string): SQL {
  return sql`pg_notify(${FINISHED_RUNS_CHANNEL}, ${workflowId})`;
}

const runOf = statement('is_run_finished', (runId: string) => sql`select 1 from finished_runs where run_id = ${runId}`);

/** Whether a run has done its work. */
export async function isRunFinished(db: Queryable, { runId }: RunRef): Promise<boolean> {
  const { rows } = await db.execute(runOf(runId));
  return rows.length > 0;
}

/** Dispatches the notifications of FINISHED_RUNS_CHANNEL to the waiting callers of this process. */
export interface FinishedRuns {
  /** handles a payload of FINISHED_RUNS_CHANNEL; undefined after a reconnect: notifications may have been lost */
  receive(workflowId: string | undefined): void;
  /** Resolves when the work of that workflow is stored, or never: a notification may be lost. `over` ends the wait. */
  waitFor(workflowId: string, over: AbortSignal): Promise<void>;
}

/** Creates the dispatcher, without waiting callers. */
export function createFinishedRuns(): FinishedRuns {
  const callers = new EventTarget();
  // any number of callers may wait for one workflow
  setMaxListeners(0, callers);
  return {
    receive: (workflowId) => callers.dispatchEvent(new Event(workflowId ?? '')),
    waitFor: (workflowId, over) =>
      new Promise((resolve) => callers.addEventListener(workflowId, () => resolve(), { once: true, signal: over })),
  };
}
