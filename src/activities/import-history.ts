import type { WorkflowClient } from '@temporalio/client';
import type { Import, ImportProgress, ImportStatus } from '../contract/runs/import.ts';
import {
  beginImport as begin,
  cancelImport as cancel,
  completeImport as complete,
  failImport as fail,
  holdImport as hold,
  type ImportRef,
} from '../db/coordination/import-state.ts';
import type { Db } from '../db/driver/client.ts';
import { importHistoryWorkflowId, QUEUES, searchableBy, SIGNALS, WORKFLOWS } from '../workflows/names.ts';

/** How an import stands, as its workflow needs it. */
export interface ImportState extends ImportProgress {
  status: ImportStatus;
  imported: number;
}

export type ImportHistoryActivities = ReturnType<typeof createImportHistoryActivities>;

/** Activities of the `importHistory` workflow: each commits a transition. Null: the import or its account is gone. */
export function createImportHistoryActivities({ db }: { db: Db }) {
  /** Makes the import `running`, unless it has to wait or has ended. */
  const beginImport = (ref: ImportRef) => stateOf(begin(db, ref));

  /** Records that the next attempt follows after `waitMs`. */
  const holdImport = ({ reason, waitMs, ...ref }: ImportRef & { reason: string; waitMs: number }) =>
    stateOf(hold(db, ref, reason, new Date(Date.now() + waitMs)));

  const completeImport = (ref: ImportRef) => stateOf(complete(db, ref));

  const failImport = ({ reason, ...ref }: ImportRef & { reason: string }) => stateOf(fail(db, ref, reason));

  /** What was imported stays. */
  const cancelImport = (ref: ImportRef) => stateOf(cancel(db, ref));

  return { beginImport, holdImport, completeImport, failImport, cancelImport };
}

async function stateOf(changing: Promise<Import | undefined>): Promise<ImportState | null> {
  const row = await changing;
  return row ? { status: row.status, imported: row.imported, ...row.progress } : null;
}

/** The type and the start options of the workflow of an import. `heartbeatTimeoutMs`: see AccountDeps. */
export function importHistoryStart({ id, accountId }: ImportRef, heartbeatTimeoutMs: number) {
  const options = {
    taskQueue: QUEUES.commands,
    workflowId: importHistoryWorkflowId(id),
    args: [{ id, accountId, heartbeatTimeoutMs }],
    typedSearchAttributes: searchableBy(accountId, [id]),
    staticSummary: `import older mail of ${accountId}`,
  };
  return [WORKFLOWS.importHistory, options] as [string, typeof options];
}

/** Deadline of a call to Temporal, ms: a caller of the API may wait for it. */
const TEMPORAL_TIMEOUT_MS = 2_000;

/** Makes the workflow of an import read its state again; starts it when it does not run. */
export async function wakeImportRun(client: WorkflowClient, ref: ImportRef, heartbeatTimeoutMs: number): Promise<void> {
  const [type, options] = importHistoryStart(ref, heartbeatTimeoutMs);
  await client.withDeadline(Date.now() + TEMPORAL_TIMEOUT_MS, () =>
    client.signalWithStart(type, { ...options, signal: SIGNALS.importChanged, signalArgs: [] }),
  );
}
