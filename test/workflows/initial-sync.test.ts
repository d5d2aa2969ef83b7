import { afterAll, describe, expect, it } from '@jest/globals';
import { Context } from '@temporalio/activity';
import type { WorkflowHandle } from '@temporalio/client';
import { toFailure } from '../../src/activities/failures.ts';
import { ApiError } from '../../src/contract/errors.ts';
import { MailError } from '../../src/mail-wire/mail-error.ts';
import { newId } from '../../src/new-id.ts';
import { PartUnavailable } from '../../src/outage.ts';
import { initialSyncWorkflowId, QUEUES, WORKFLOWS } from '../../src/workflows/names.ts';
import { startTestWorkers } from '../helpers/product/temporal-workers.ts';
import { waitFor } from '../helpers/assert/wait.ts';

/** What one run of the importing activity does. */
type Import = (sync: Sync) => Promise<{ done: boolean }>;

interface Sync {
  status: 'pending' | 'running' | 'completed' | 'failed' | null;
  imported: number | null;
  reported: string[];
  imports: number;
  script: Import[];
}

const syncs = new Map<string, Sync>();
const of = ({ accountId }: { accountId: string }): Sync => {
  const sync = syncs.get(accountId);
  if (!sync) throw new Error('no such account');
  return sync;
};

const done: Import = async () => ({ done: true });
const more: Import = async (sync) => {
  sync.imported = (sync.imported ?? 0) + 10;
  return { done: false };
};
const fail: Import = async () => {
  throw toFailure(new MailError('provider_error', 'imap', 'timed out'));
};
const failAfterProgress: Import = async (sync) => {
  sync.imported = (sync.imported ?? 0) + 1;
  throw toFailure(new MailError('provider_error', 'imap', 'closed'));
};

const away: Import = async () => {
  throw toFailure(Object.assign(new Error('x'), { code: '57P01' }));
};
const full: Import = async () => {
  throw toFailure(new PartUnavailable('storage', { full: true }));
};

const activities = {
  async setInitialSync(input: { accountId: string; to: 'running' | 'completed' | 'failed' }) {
    const sync = of(input);
    if (sync.status === (input.to === 'running' ? 'pending' : 'running')) {
      sync.status = input.to;
      sync.reported.push(input.to);
    }
    return sync.status === input.to;
  },
  async countImported(input: { accountId: string }) {
    return of(input).imported;
  },
  async importMailbox(input: { accountId: string }) {
    const sync = of(input);
    sync.imports += 1;
    return (sync.script.shift() ?? done)(sync);
  },
};

// concurrent tests begin before any hook
const workers = await startTestWorkers(activities);
afterAll(() => workers.stop());

const PACE = 0.01;

async function start(script: Import[], state: Partial<Sync> = {}) {
  const accountId = newId('account');
  const sync: Sync = { status: 'pending', imported: 0, reported: [], imports: 0, ...state, script };
  syncs.set(accountId, sync);
  const handle = await workers.client.workflow.start(WORKFLOWS.initialSync, {
    taskQueue: QUEUES.commands,
    workflowId: initialSyncWorkflowId(accountId),
    args: [{ accountId, heartbeatTimeoutMs: 1_000, pace: PACE }],
  });
  return { sync, handle, ended: handle.result() as Promise<unknown> };
}

/** The waits of a run between its attempts, ms, as they are without `pace`. */
async function waitsOf(handle: { fetchHistory(): ReturnType<WorkflowHandle['fetchHistory']> }): Promise<number[]> {
  const { events } = await handle.fetchHistory();
  return (events ?? []).flatMap(({ timerStartedEventAttributes: timer }) => {
    if (!timer?.startToFireTimeout) return [];
    const { seconds, nanos } = timer.startToFireTimeout;
    return [(Number(seconds ?? 0) * 1_000 + Number(nanos ?? 0) / 1e6) / PACE];
  });
}

/** Each wait is jittered by a fifth. */
function expectGrowing(
  waits: number[],
  { count, firstMs, lastMs }: { count: number; firstMs: number; lastMs: number },
) {
  expect(waits).toHaveLength(count);
  const [first = 0, last = 0] = [waits[0], waits.at(-1)];
  expect([first / firstMs, last / lastMs].every((ratio) => ratio > 0.7 && ratio < 1.3)).toBe(true);
}

describe('the initial sync', () => {
  it.concurrent('imports until all mail is imported, and reports its start and its end', async () => {
    const { sync, ended } = await start([more, more, done]);
    await ended;
    expect(sync).toMatchObject({ reported: ['running', 'completed'], imports: 3, status: 'completed' });
  });

  it.concurrent('gives up after five failures in a row, and the run shows it', async () => {
    const { sync, ended } = await start([fail, fail, fail, fail, fail]);
    await expect(ended).rejects.toMatchObject({ name: 'WorkflowFailedError' });
    expect(sync).toMatchObject({ reported: ['running', 'failed'], imports: 5, status: 'failed' });
  });

  it.concurrent('does not give up while it makes progress', async () => {
    const { sync, ended } = await start([fail, fail, fail, fail, failAfterProgress, fail, fail, fail, done]);
    await ended;
    expect(sync).toMatchObject({ reported: ['running', 'completed'], imports: 9 });
  });

  it.concurrent('gives up when the storage is full for five attempts, with a longer wait after each', async () => {
    const { sync, handle, ended } = await start(Array<Import>(6).fill(full));
    await expect(ended).rejects.toMatchObject({ name: 'WorkflowFailedError' });
    expect(sync).toMatchObject({ reported: ['running', 'failed'], imports: 5, status: 'failed' });
    expectGrowing(await waitsOf(handle), { count: 4, firstMs: 2_000, lastMs: 54_000 });
  });

  it.concurrent('continues as long as the storage has room for some mail', async () => {
    const some: Import = async (sync) => {
      sync.imported = (sync.imported ?? 0) + 1;
      return full(sync);
    };
    const { sync, ended } = await start([full, full, full, full, some, full, full, full, done]);
    await ended;
    expect(sync).toMatchObject({ reported: ['running', 'completed'], imports: 9 });
  });

  it.concurrent('waits out an outage of the database, with a longer wait after each attempt', async () => {
    const { sync, handle, ended } = await start([...Array<Import>(9).fill(away), done]);
    await ended;
    expect(sync).toMatchObject({ reported: ['running', 'completed'], imports: 10 });
    expectGrowing(await waitsOf(handle), { count: 9, firstMs: 500, lastMs: 60_000 });
  });

  it.concurrent('counts failures in a row though outages occur between them', async () => {
    const { sync, ended } = await start([fail, away, fail, away, fail, away, fail, away, fail]);
    await expect(ended).rejects.toMatchObject({ name: 'WorkflowFailedError' });
    expect(sync).toMatchObject({ reported: ['running', 'failed'], imports: 9 });
  });

  it.concurrent('counts a stalled import', async () => {
    // no heartbeat until it is given up
    const silent: Import = async () => {
      await Context.current().cancelled.catch(() => {});
      return { done: true };
    };
    const { sync, ended } = await start([fail, fail, fail, fail, silent]);
    await expect(ended).rejects.toBeDefined();
    expect(sync.status).toBe('failed');
  });

  it.concurrent('continues after it was lost, and does not report its start again', async () => {
    const { sync, ended } = await start([done], { status: 'running', imported: 500 });
    await ended;
    expect(sync.reported).toEqual(['completed']);
  });

  it.concurrent.each(['completed', 'failed', null] as const)('does nothing when it is %s', async (status) => {
    const { sync, ended } = await start([], { status });
    await ended;
    expect(sync).toMatchObject({ reported: [], imports: 0 });
  });

  it.concurrent('ends when the account does not exist', async () => {
    const gone: Import = async (sync) => {
      sync.imported = null;
      throw toFailure(new ApiError('not_found', 'gone'));
    };
    const { sync, ended } = await start([gone]);
    await ended;
    expect(sync.reported).toEqual(['running']);
  });

  it.concurrent('releases the mailbox before it ends, when it is cancelled', async () => {
    let letGo = false;
    const long: Import = async () => {
      const context = Context.current();
      const beat = setInterval(() => context.heartbeat(), 50);
      await context.cancelled.catch(() => {});
      clearInterval(beat);
      letGo = true;
      return context.cancelled.then(() => ({ done: true }));
    };
    const { sync, handle, ended } = await start([long]);
    await waitFor(() => sync.imports === 1);
    await handle.cancel();
    await expect(ended).rejects.toMatchObject({ name: 'WorkflowFailedError' });
    expect(letGo).toBe(true);
    expect(sync.reported).toEqual(['running']);
  });
});
