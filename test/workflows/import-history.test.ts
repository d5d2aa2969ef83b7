import { afterAll, describe, expect, it } from '@jest/globals';
import { Context } from '@temporalio/activity';
import type { ImportState } from '../../src/activities/import-history.ts';
import { toFailure } from '../../src/activities/failures.ts';
import { MailError } from '../../src/mail-wire/mail-error.ts';
import { newId } from '../../src/new-id.ts';
import { PartUnavailable } from '../../src/outage.ts';
import { importHistoryWorkflowId, QUEUES, SIGNALS, WORKFLOWS } from '../../src/workflows/names.ts';
import { startTestWorkers } from '../helpers/product/temporal-workers.ts';
import { waitFor } from '../helpers/assert/wait.ts';

/** What one run of the importing activity does. */
type Attempt = (run: Run) => Promise<{ done: boolean }>;

interface Run extends ImportState {
  attempts: number;
  looks: number;
  holds: { reason: string; waitMs: number }[];
  script: Attempt[];
}

const runs = new Map<string, Run>();
const of = ({ id }: { id: string }): Run => {
  const run = runs.get(id);
  if (!run) throw new Error('no such import');
  return run;
};

const done: Attempt = async () => ({ done: true });
const more: Attempt = async (run) => {
  run.messages_done += 10;
  return { done: false };
};
const fail: Attempt = async () => {
  throw toFailure(new MailError('provider_error', 'imap', 'timed out'));
};
const failAfterProgress: Attempt = async (run) => {
  run.messages_done += 1;
  return fail(run);
};
const away: Attempt = async () => {
  throw toFailure(Object.assign(new Error('x'), { code: '57P01' }));
};
const full: Attempt = async () => {
  throw toFailure(new PartUnavailable('storage', { full: true }));
};
/** Runs until a call changes the state. */
const long: Attempt = async () => {
  const context = Context.current();
  const beat = setInterval(() => context.heartbeat(), 50);
  await context.cancelled.catch(() => {});
  clearInterval(beat);
  return context.cancelled.then(() => ({ done: true }));
};

/** A transition from these states, as src/db/coordination/import-state.ts makes it. */
const transition =
  (to: ImportState['status'], from: ImportState['status'][]) =>
  async (input: { id: string }): Promise<ImportState | null> => {
    const run = runs.get(input.id);
    if (!run) return null;
    if (from.includes(run.status)) run.status = to;
    const { script: _, ...state } = run;
    return state;
  };

const begin = transition('running', ['queued', 'running', 'waiting']);
const hold = transition('waiting', ['running']);
const activities = {
  beginImport: async (input: { id: string }) => {
    const run = runs.get(input.id);
    if (run) run.looks += 1;
    return begin(input);
  },
  holdImport: async (input: { id: string; reason: string; waitMs: number }) => {
    of(input).holds.push({ reason: input.reason, waitMs: input.waitMs / PACE });
    return hold(input);
  },
  completeImport: transition('completed', ['running']),
  failImport: transition('failed', ['queued', 'running', 'waiting']),
  cancelImport: transition('cancelled', ['queued', 'running', 'waiting', 'paused']),
  async importOlderMail(input: { id: string }) {
    const run = of(input);
    run.attempts += 1;
    return (run.script.shift() ?? done)(run);
  },
};

const PACE = 0.01;

// concurrent tests begin before any hook
const workers = await startTestWorkers(activities);
afterAll(() => workers.stop());

async function start(script: Attempt[], state: Partial<Run> = {}) {
  const id = newId('import');
  const counts = { folders_known: 1, folders_done: 0, messages_known: 100, messages_done: 0, messages_left: 100 };
  const run: Run = { status: 'queued', imported: 0, ...counts, attempts: 0, looks: 0, holds: [], ...state, script };
  runs.set(id, run);
  const handle = await workers.client.workflow.start(WORKFLOWS.importHistory, {
    taskQueue: QUEUES.commands,
    workflowId: importHistoryWorkflowId(id),
    args: [{ id, accountId: newId('account'), heartbeatTimeoutMs: 1_000, pace: PACE }],
  });
  return { id, run, handle, ended: handle.result() as Promise<unknown> };
}

describe('an import of older mail', () => {
  it.concurrent('reads until nothing is left', async () => {
    const { run, ended } = await start([more, more, done]);
    await ended;
    expect(run).toMatchObject({ status: 'completed', attempts: 3, holds: [] });
  });

  it.concurrent('gives up after five failures in a row, and the run shows it', async () => {
    const { run, ended } = await start(Array<Attempt>(6).fill(fail));
    await expect(ended).rejects.toMatchObject({ name: 'WorkflowFailedError' });
    expect(run).toMatchObject({ status: 'failed', attempts: 5 });
    expect(run.holds[0]?.reason).toContain('timed out');
  });

  it.concurrent('does not give up while it makes progress', async () => {
    const { run, ended } = await start([fail, fail, fail, fail, failAfterProgress, fail, fail, fail, done]);
    await ended;
    expect(run).toMatchObject({ status: 'completed', attempts: 9 });
  });

  it.concurrent('gives up when the storage is full for five attempts, with a longer wait after each', async () => {
    const { run, ended } = await start(Array<Attempt>(6).fill(full));
    await expect(ended).rejects.toMatchObject({ name: 'WorkflowFailedError' });
    expect(run).toMatchObject({ status: 'failed', attempts: 5 });
    const waits = run.holds.map(({ waitMs }) => waitMs);
    expect(waits[0]).toBeGreaterThan(1_400);
    expect(waits[3]).toBeGreaterThan(37_000);
  });

  it.concurrent('waits out an outage of the database, with a longer wait after each attempt', async () => {
    const { run, ended } = await start([...Array<Attempt>(9).fill(away), done]);
    await ended;
    expect(run).toMatchObject({ status: 'completed', attempts: 10 });
    expect(run.holds.at(-1)?.waitMs).toBeGreaterThan(40_000);
  });

  it.concurrent('stops when it is paused, and resumes when it is continued', async () => {
    const { run, handle, ended } = await start([long]);
    await waitFor(() => run.attempts === 1);
    run.status = 'paused';
    await handle.signal(SIGNALS.importChanged);
    await waitFor(() => run.looks === 2);
    expect(run.attempts).toBe(1);
    run.status = 'queued';
    await handle.signal(SIGNALS.importChanged);
    await ended;
    expect(run).toMatchObject({ status: 'completed', attempts: 2, holds: [] });
  });

  it.concurrent('ends when a call cancels it', async () => {
    const { run, handle, ended } = await start([long]);
    await waitFor(() => run.attempts === 1);
    run.status = 'cancelled';
    await handle.signal(SIGNALS.importChanged);
    await ended;
    expect(run).toMatchObject({ status: 'cancelled', attempts: 1 });
  });

  it.concurrent('is cancelled with its run', async () => {
    const { run, handle, ended } = await start([long]);
    await waitFor(() => run.attempts === 1);
    await handle.cancel();
    await expect(ended).rejects.toMatchObject({ name: 'WorkflowFailedError' });
    expect(run.status).toBe('cancelled');
  });

  it.concurrent.each(['completed', 'failed', 'cancelled'] as const)('does nothing when it is %s', async (status) => {
    const { run, ended } = await start([], { status });
    await ended;
    expect(run).toMatchObject({ status, attempts: 0 });
  });

  it.concurrent('ends when the account is removed', async () => {
    const { id, run, handle, ended } = await start([long]);
    await waitFor(() => run.attempts === 1);
    runs.delete(id);
    await handle.signal(SIGNALS.importChanged);
    await ended;
    expect(run.attempts).toBe(1);
  });
});
