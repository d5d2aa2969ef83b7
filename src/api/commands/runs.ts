import type { Client } from '@temporalio/client';
import { createLimiter, withDeadline } from '../../async.ts';
import { ApiError } from '../../contract/errors.ts';
import { type Run, RUN_STATUSES, type RunStatus } from '../../contract/history.ts';
import { PartUnavailable, unavailablePart } from '../../outage.ts';
import { QUERIES, SEARCH_ATTRIBUTES } from '../../workflows/names.ts';
import type { RunState } from '../../workflows/run-state.ts';

export interface RunPage {
  runs: Run[];
  /** for the next page; null: this was the last one */
  next: string | null;
}

/** Deadlines of Temporal's list, and of the states of all live runs together, ms. */
const LIST_MS = 2_000;
const STATES_MS = 2_000;
/** Queries at a time. */
const PARALLEL = 8;

/**
 * The runs of an account, newest first, the live ones with their states.
 * @throws ApiError service_unavailable when Temporal does not respond
 */
export async function listRuns(
  client: Client,
  accountId: string,
  { limit, after }: { limit: number; after: string | null },
): Promise<RunPage> {
  const list = () =>
    client.workflowService.listWorkflowExecutions({
      namespace: client.options.namespace,
      query: `${SEARCH_ATTRIBUTES.mailAccount} = "${accountId}" or ${SEARCH_ATTRIBUTES.resourceIds} = "${accountId}"`,
      pageSize: limit,
      ...(after === null ? {} : { nextPageToken: Buffer.from(after, 'base64url') }),
    });
  let page: Awaited<ReturnType<typeof list>>;
  try {
    const asked = client.withDeadline(Date.now() + LIST_MS, list);
    page = await withDeadline(LIST_MS, asked, () => new PartUnavailable('temporal'));
  } catch (cause) {
    const away = unavailablePart(cause);
    throw away ? new ApiError('service_unavailable', away.detail, { cause }) : cause;
  }
  const runs = (page.executions ?? []).map(toRun);
  await addStates(client, runs);
  const token = Buffer.from(page.nextPageToken ?? []);
  return { runs, next: token.length === 0 ? null : token.toString('base64url') };
}

type Execution = NonNullable<
  Awaited<ReturnType<Client['workflowService']['listWorkflowExecutions']>>['executions']
>[number];

function toRun({ execution, type, status, startTime, closeTime }: Execution): Run {
  return {
    object: 'Run',
    workflow_id: execution?.workflowId ?? '',
    run_id: execution?.runId ?? '',
    type: type?.name ?? '',
    status: statusOf(status),
    started_at: dateOf(startTime) ?? '',
    closed_at: dateOf(closeTime),
    state: null,
  };
}

/** WorkflowExecutionStatus in Temporal's API begins at 1 with the running ones. */
function statusOf(status: unknown): RunStatus {
  return RUN_STATUSES[Number(status) - 1] ?? 'running';
}

function dateOf(time: Execution['startTime']): string | null {
  if (!time?.seconds) return null;
  return new Date(Number(time.seconds) * 1000 + Math.floor((time.nanos ?? 0) / 1e6)).toISOString();
}

/** Adds the states of live runs; a run for which no worker responds in time stays without one. */
async function addStates(client: Client, runs: Run[]): Promise<void> {
  const limiter = createLimiter(PARALLEL);
  const until = performance.now() + STATES_MS;
  const ask = async (run: Run) => {
    const leftMs = until - performance.now();
    if (leftMs <= 0) return;
    const handle = client.workflow.getHandle(run.workflow_id, run.run_id);
    // a time of the clock, as Temporal's client wants it
    const answer = client.withDeadline(Date.now() + leftMs, () => handle.query<RunState>(QUERIES.state));
    const { state, since, lastError, nextAttempt, counts } = await answer;
    run.state = { state, since, last_error: lastError, next_try: nextAttempt, counts };
  };
  const asked = runs
    .filter(({ status }) => status === 'running')
    .map((run) => limiter(() => ask(run)).catch(() => undefined));
  await withDeadline(STATES_MS, Promise.all(asked), () => new Error('late')).catch(() => undefined);
}
