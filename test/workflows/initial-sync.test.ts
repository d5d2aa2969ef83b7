import { afterAll, describe, expect, it } from '@jest/globals';
import { Context } from '@temporalio/activity';
import { toFailure } from '../../src/activities/failures.ts';
import { ApiError } from '../../src/contract/errors.ts';
import { MailError } from '../../src/mail-wire/mail-error.ts';
import { newId } from '../../src/new-id.ts';
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

async function start(script: Import[], state: Partial<Sync> = {}) {
  const accountId = newId('account');
  const sync: Sync = { status: 'pending', imported: 0, reported: [], imports: 0, ...state, script };
  syncs.set(accountId, sync);
  const handle = await workers.client.workflow.start(WORKFLOWS.initialSync, {
    taskQueue: QUEUES.commands,
    workflowId: initialSyncWorkflowId(accountId),
    args: [{ accountId, heartbeatTimeoutMs: 1_000, pace: 0.01 }],
  });
  return { sync, handle, ended: handle.result() as Promise<unknown> };
}

describe('the initial sync', () => {
  it.concurrent('imports until there is no more, and tells its start and its end', async () => {
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

  it.concurrent('takes our own store being away for no failure of the mailbox', async () => {
    const away: Import = async () => {
      throw toFailure(Object.assign(new Error('x'), { code: '57P01' }));
    };
    const { sync, ended } = await start([away, away, away, away, away, away, done]);
    await ended;
    expect(sync.reported).toEqual(['running', 'completed']);
  });

  it.concurrent('counts an import that stood still', async () => {
    // no heartbeat until it is given up
    const silent: Import = async () => {
      await Context.current().cancelled.catch(() => {});
      return { done: true };
    };
    const { sync, ended } = await start([fail, fail, fail, fail, silent]);
    await expect(ended).rejects.toBeDefined();
    expect(sync.status).toBe('failed');
  });

  it.concurrent('goes on after it was lost, and does not tell its start again', async () => {
    const { sync, ended } = await start([done], { status: 'running', imported: 500 });
    await ended;
    expect(sync.reported).toEqual(['completed']);
  });

  it.concurrent.each(['completed', 'failed', null] as const)('does nothing when it is %s', async (status) => {
    const { sync, ended } = await start([], { status });
    await ended;
    expect(sync).toMatchObject({ reported: [], imports: 0 });
  });

  it.concurrent('ends when the account is gone', async () => {
    const gone: Import = async (sync) => {
      sync.imported = null;
      throw toFailure(new ApiError('not_found', 'gone'));
    };
    const { sync, ended } = await start([gone]);
    await ended;
    expect(sync.reported).toEqual(['running']);
  });

  it.concurrent('lets go of the mailbox before it ends, when it is cancelled', async () => {
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
