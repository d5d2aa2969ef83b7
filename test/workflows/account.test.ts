import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, describe, expect, it } from '@jest/globals';
import { Context } from '@temporalio/activity';
import { toFailure } from '../../src/activities/failures.ts';
import type { AccountStatus, InitialSyncStatus } from '../../src/contract/account.ts';
import { ApiError } from '../../src/contract/errors.ts';
import { LeaseLost } from '../../src/db/coordination/lease.ts';
import { MailError } from '../../src/mail-wire/mail-error.ts';
import { newId } from '../../src/new-id.ts';
import { PartUnavailable } from '../../src/outage.ts';
import type { AccountInput } from '../../src/workflows/account.ts';
import { accountWorkflowId, QUEUES, SIGNALS, WORKFLOWS } from '../../src/workflows/names.ts';
import { startTestWorkers } from '../helpers/product/temporal-workers.ts';
import { waitFor } from '../helpers/assert/wait.ts';

const refused = () => toFailure(new MailError('invalid_credentials', 'imap', 'refused'), { watchEpoch: 7 });
const unreachable = () => toFailure(new MailError('provider_error', 'imap', 'timed out'));
const dropped = () => toFailure(new MailError('provider_error', 'imap', 'closed'), { connected: true });
const flooded = () =>
  toFailure(new MailError('provider_error', 'imap', 'too much', { flooded: true }), { connected: true });

/** The password was changed while the mailbox was connected. */
const refusedLater = () =>
  toFailure(new MailError('invalid_credentials', 'imap', 'refused'), { connected: true, watchEpoch: 7 });
const away = () => toFailure(Object.assign(new Error('x'), { code: '57P01' }));
const full = () => toFailure(new PartUnavailable('storage', { full: true }));
const leaseLost = () => toFailure(new LeaseLost('acc'));

/** The script of one execution of the watching activity. */
type Watch = (mailbox: Mailbox) => Promise<void>;

const fail =
  (failure: () => Error): Watch =>
  async () => {
    throw failure();
  };
const end: Watch = async () => {};
/** Connects and stays so until it is cancelled, as the real one does. */
const stay: Watch = async (mailbox) => {
  await mailbox.signal(SIGNALS.mailboxConnected);
  await Context.current().cancelled.catch(async (error: unknown) => {
    await mailbox.onLetGo?.();
    throw error;
  });
};
/** Its worker is lost: it sends no heartbeats, and never ends. */
const gone: Watch = async (mailbox) => {
  await mailbox.signal(SIGNALS.mailboxConnected);
  mailbox.silent = true;
  await new Promise<void>((resolve) => mailbox.gone.push(resolve));
};
/** Stalls without a heartbeat until another watch has replaced it. */
const silent: Watch = async (mailbox) => {
  mailbox.silent = true;
  const { watches } = mailbox;
  await waitFor(() => mailbox.watches > watches, { timeoutMs: 20_000 });
};
const connectThenEnd: Watch = async (mailbox) => {
  await mailbox.signal(SIGNALS.mailboxConnected);
};
const connectThen =
  (failure: () => Error): Watch =>
  async (mailbox) => {
    await mailbox.signal(SIGNALS.mailboxConnected);
    throw failure();
  };

/** An account whose mailbox does as scripted; the store is this object. */
class Mailbox {
  readonly id = newId('account');
  status: AccountStatus = 'running';
  initialSync: InitialSyncStatus | null = null;
  watch = true;
  removed = false;
  /** every change of status that was committed */
  readonly reported: string[] = [];
  watches = 0;
  silent = false;
  watching = 0;
  most = 0;
  onLetGo: (() => Promise<void>) | undefined;
  readonly gone: (() => void)[] = [];
  script: Watch[] = [];
  /** called at the end of the script */
  afterwards: Watch = stay;

  signal(name: string): Promise<void> {
    return workers.client.workflow.getHandle(accountWorkflowId(this.id)).signal(name);
  }
}

const mailboxes = new Map<string, Mailbox>();
const of = (input: { accountId: string }): Mailbox => {
  const mailbox = mailboxes.get(input.accountId);
  if (!mailbox) throw new Error('no such mailbox');
  return mailbox;
};

const activities = {
  async loadAccount(input: { accountId: string }) {
    const { removed, status, initialSync, watch } = of(input);
    return removed ? null : { status, initialSync, watch };
  },
  async setAccountStatus(input: { accountId: string; status: AccountStatus; detail: string; watchEpoch?: number }) {
    const mailbox = of(input);
    if (mailbox.status !== input.status) {
      mailbox.reported.push(
        `${mailbox.status} → ${input.status}: ${input.detail || '-'} ${input.watchEpoch ?? ''}`.trim(),
      );
      mailbox.status = input.status;
    }
    return mailbox.status;
  },
  async watchMailbox(input: { accountId: string }) {
    const mailbox = of(input);
    const context = Context.current();
    mailbox.silent = false;
    const beat = setInterval(() => mailbox.silent || context.heartbeat(), 50);
    mailbox.watches += 1;
    mailbox.watching += 1;
    mailbox.most = Math.max(mailbox.most, mailbox.watching);
    try {
      await (mailbox.script.shift() ?? mailbox.afterwards)(mailbox);
    } finally {
      mailbox.watching -= 1;
      clearInterval(beat);
    }
  },
  async setInitialSync() {
    return false;
  },
  async countImported() {
    return 0;
  },
};

/** The waits between attempts are a second each at least. */
const PATIENT = { timeoutMs: 25_000 };

// concurrent tests begin before any hook
const workers = await startTestWorkers(activities);
afterAll(() => workers.stop());

async function start(
  script: Watch[],
  options: Partial<Mailbox> = {},
  heartbeatTimeoutMs = 2_000,
  input: Partial<AccountInput> = {},
): Promise<Mailbox> {
  const mailbox = Object.assign(new Mailbox(), options, { script });
  mailboxes.set(mailbox.id, mailbox);
  await workers.client.workflow.start(WORKFLOWS.account, {
    taskQueue: QUEUES.commands,
    workflowId: accountWorkflowId(mailbox.id),
    args: [{ accountId: mailbox.id, heartbeatTimeoutMs, pace: 0.01, ...input }],
  });
  return mailbox;
}

const stateOf = async (mailbox: Mailbox): Promise<unknown> => {
  const { searchAttributes } = await workers.client.workflow.getHandle(accountWorkflowId(mailbox.id)).describe();
  return searchAttributes['MailStatus']?.[0];
};
const untilState = (mailbox: Mailbox, state: string) =>
  waitFor(async () => (await stateOf(mailbox)) === state, { ...PATIENT, what: `state ${state}` });

async function stop(mailbox: Mailbox): Promise<void> {
  const handle = workers.client.workflow.getHandle(accountWorkflowId(mailbox.id));
  await handle.cancel();
  await handle.result().catch(() => {});
}

describe('the account workflow', () => {
  it.concurrent('goes from connecting to running without an event', async () => {
    const mailbox = await start([]);
    await untilState(mailbox, 'running');
    expect(mailbox.reported).toEqual([]);
    await stop(mailbox);
  });

  it.concurrent('can be found by its account', async () => {
    const mailbox = await start([]);
    await untilState(mailbox, 'running');
    const { searchAttributes } = await workers.client.workflow.getHandle(accountWorkflowId(mailbox.id)).describe();
    expect(searchAttributes['MailAccount']).toEqual([mailbox.id]);
    await stop(mailbox);
  });

  it.concurrent('runs the watch again immediately when it ends without a failure', async () => {
    const mailbox = await start([end, end, end]);
    await untilState(mailbox, 'running');
    expect(mailbox.watches).toBe(4);
    expect(mailbox.reported).toEqual([]);
    await stop(mailbox);
  });

  it.concurrent('is disconnected by a second refused login, and says under which lease it was refused', async () => {
    const mailbox = await start([fail(refused), fail(refused)]);
    await untilState(mailbox, 'disconnected');
    expect(mailbox.reported).toEqual(['running → disconnected: refused 7']);
    expect(mailbox.watches).toBe(2);
    await stop(mailbox);
  });

  it.concurrent('is not disconnected by one refused login', async () => {
    const mailbox = await start([fail(refused), connectThen(refused), stay]);
    await waitFor(() => mailbox.watches === 3, PATIENT);
    await untilState(mailbox, 'running');
    expect(mailbox.reported).toEqual([]);
    await stop(mailbox);
  });

  it.concurrent('waits for a reconnect when disconnected, then connects', async () => {
    const mailbox = await start([fail(refused), fail(refused)]);
    await untilState(mailbox, 'disconnected');
    mailbox.status = 'running';
    await mailbox.signal(SIGNALS.reconnected);
    await untilState(mailbox, 'running');
    expect(mailbox.watches).toBe(3);
    expect(mailbox.reported).toHaveLength(1);
    await stop(mailbox);
  });

  it.concurrent('is errored by three failures in a row, continues, and runs again after the next success', async () => {
    const mailbox = await start([fail(unreachable), fail(unreachable), fail(unreachable), fail(unreachable), stay]);
    await untilState(mailbox, 'running');
    expect(mailbox.reported).toEqual(['running → errored: timed out', 'errored → running: -']);
    await stop(mailbox);
  });

  it.concurrent('is not errored by two failures', async () => {
    const mailbox = await start([fail(unreachable), fail(unreachable), connectThen(dropped), fail(unreachable), stay]);
    await waitFor(() => mailbox.watches === 5, PATIENT);
    await untilState(mailbox, 'running');
    expect(mailbox.reported).toEqual([]);
    await stop(mailbox);
  });

  it.concurrent('is errored by three floods in a row, though it was in sync before each of them', async () => {
    const mailbox = await start(Array(4).fill(connectThen(flooded)));
    await waitFor(() => mailbox.watches === 5, PATIENT);
    expect(mailbox.reported).toEqual(['running → errored: too much']);
    // the pace makes a second of the minute that a connection has to last
    await untilState(mailbox, 'running');
    expect(mailbox.reported).toEqual(['running → errored: too much', 'errored → running: -']);
    await stop(mailbox);
  });

  it.concurrent('is errored until a connection lasts, in a new execution too', async () => {
    let early: string[] | undefined;
    const floodAgain: Watch = async (each) => {
      await each.signal(SIGNALS.mailboxConnected);
      // less than the part of a minute that a connection has to last
      await sleep(250);
      early = [...each.reported];
      throw flooded();
    };
    const carried = { failures: 3, refusals: 0, backoff: 1, flooded: true };
    const mailbox = await start([floodAgain], { status: 'errored' }, 2_000, { carried });
    await untilState(mailbox, 'running');
    expect([early, mailbox.reported]).toEqual([[], ['errored → running: -']]);
    await stop(mailbox);
  });

  it.concurrent('goes from errored to disconnected when the login is refused', async () => {
    const mailbox = await start([...Array(3).fill(fail(unreachable)), fail(refused), fail(refused)]);
    await untilState(mailbox, 'disconnected');
    expect(mailbox.reported).toEqual(['running → errored: timed out', 'errored → disconnected: refused 7']);
    await stop(mailbox);
  });

  it.concurrent.each<[string, Watch[], disconnected: boolean]>([
    ['refused, refused', [fail(refused), fail(refused)], true],
    ['refused, unreachable, refused', [fail(refused), fail(unreachable), fail(refused)], false],
    ['refused, cut after the login, refused', [fail(refused), fail(dropped), fail(refused)], false],
    ['refused, connected and cut, refused', [fail(refused), connectThen(dropped), fail(refused)], false],
    ['refused, refused after a login', [fail(refused), fail(refusedLater)], false],
    ['refused after a login, refused', [fail(refusedLater), fail(refused)], true],
    ['refused, database away, refused', [fail(refused), fail(away), fail(refused)], false],
    ['refused, storage full, refused', [fail(refused), fail(full), fail(refused)], false],
    ['refused, lease lost, refused', [fail(refused), fail(leaseLost), fail(refused)], false],
    ['refused, ended well, refused', [fail(refused), connectThenEnd, fail(refused)], false],
    ['unreachable, refused, refused', [fail(unreachable), fail(refused), fail(refused)], true],
    ['refused, unreachable, refused, refused', [fail(refused), fail(unreachable), fail(refused), fail(refused)], true],
    [
      'refused, unreachable, refused, unreachable, refused',
      [fail(refused), fail(unreachable), fail(refused), fail(unreachable), fail(refused)],
      false,
    ],
  ])('is disconnected by refusals in a row alone: %s', async (_name, script, disconnected) => {
    const { length } = script;
    const mailbox = await start([...script]);
    await untilState(mailbox, disconnected ? 'disconnected' : 'running');
    await waitFor(() => mailbox.watches === (disconnected ? length : length + 1), PATIENT);
    expect(mailbox.reported).toEqual(disconnected ? ['running → disconnected: refused 7'] : []);
    await stop(mailbox);
  });

  it.concurrent('does not count a lost lease, a database that is away or a full storage as a failure', async () => {
    const mailbox = await start([
      ...Array(4).fill(fail(leaseLost)),
      ...Array(4).fill(fail(away)),
      ...Array(4).fill(fail(full)),
      stay,
    ]);
    await waitFor(() => mailbox.watches === 13, PATIENT);
    await untilState(mailbox, 'running');
    expect(mailbox.reported).toEqual([]);
    await stop(mailbox);
  });

  it.concurrent('does not count a stalled watch as a failure of the mailbox', async () => {
    const mailbox = await start([silent, stay]);
    await waitFor(() => mailbox.watches === 2, PATIENT);
    await untilState(mailbox, 'running');
    expect(mailbox.reported).toEqual([]);
    await stop(mailbox);
  });

  it.concurrent('begins another watch when the worker is lost, long before Temporal notices', async () => {
    const mailbox = await start([gone], {}, 120_000);
    await untilState(mailbox, 'running');
    await mailbox.signal(SIGNALS.watchLost);
    await waitFor(() => mailbox.watches === 2, PATIENT);
    await untilState(mailbox, 'running');
    expect(mailbox.reported).toEqual([]);
    for (const end of mailbox.gone) end();
    await mailbox.signal(SIGNALS.reconnected);
    await waitFor(() => mailbox.watches === 3, PATIENT);
    await stop(mailbox);
  });

  it.concurrent('does not wait for a lost worker, neither with new settings nor when it is cancelled', async () => {
    const mailbox = await start([gone, gone], {}, 120_000);
    await untilState(mailbox, 'running');
    await mailbox.signal(SIGNALS.reconnected);
    await mailbox.signal(SIGNALS.watchLost);
    await waitFor(() => mailbox.gone.length === 2, PATIENT);
    const handle = workers.client.workflow.getHandle(accountWorkflowId(mailbox.id));
    await handle.cancel();
    await mailbox.signal(SIGNALS.watchLost);
    await expect(handle.result()).rejects.toThrow();
    for (const end of mailbox.gone) end();
  });

  it.concurrent('restarts the watch with new settings on a reconnect, one watch at a time', async () => {
    const mailbox = await start([]);
    await untilState(mailbox, 'running');
    await mailbox.signal(SIGNALS.reconnected);
    await waitFor(() => mailbox.watches === 2, PATIENT);
    await untilState(mailbox, 'running');
    expect(mailbox.most).toBe(1);
    expect(mailbox.reported).toEqual([]);
    await stop(mailbox);
  });

  it.concurrent('stays errored or disconnected, as stored, when it is started again', async () => {
    const errored = await start([fail(unreachable), stay], { status: 'errored' });
    await untilState(errored, 'running');
    expect(errored.reported).toEqual(['errored → running: -']);
    const disconnected = await start([], { status: 'disconnected' });
    await untilState(disconnected, 'disconnected');
    expect(disconnected.watches).toBe(0);
    await Promise.all([stop(errored), stop(disconnected)]);
  });

  it.concurrent('watches nothing while `watch` is false', async () => {
    const mailbox = await start([], { watch: false });
    await untilState(mailbox, 'unwatched');
    expect(mailbox.watches).toBe(0);
    mailbox.watch = true;
    await mailbox.signal(SIGNALS.reconnected);
    await untilState(mailbox, 'running');
    mailbox.watch = false;
    await mailbox.signal(SIGNALS.reconnected);
    await untilState(mailbox, 'unwatched');
    expect([mailbox.watches, mailbox.watching, mailbox.reported]).toEqual([1, 0, []]);
    await stop(mailbox);
  });

  it.concurrent('ends the watch without a signal when that finds `watch` false', async () => {
    const mailbox = await start([
      async (watched) => {
        watched.watch = false;
        throw leaseLost();
      },
    ]);
    await untilState(mailbox, 'unwatched');
    expect([mailbox.watches, mailbox.reported]).toEqual([1, []]);
    await stop(mailbox);
  });

  it.concurrent('shows that the login was refused while `watch` is false', async () => {
    const mailbox = await start([], { watch: false, status: 'disconnected' });
    await untilState(mailbox, 'disconnected');
    mailbox.status = 'running';
    await mailbox.signal(SIGNALS.reconnected);
    await untilState(mailbox, 'unwatched');
    expect(mailbox.watches).toBe(0);
    await stop(mailbox);
  });

  it.concurrent('releases the mailbox before it ends, when it is cancelled', async () => {
    let letGo: string | undefined;
    const mailbox = await start([]);
    mailbox.onLetGo = async () => {
      const { status } = await workers.client.workflow.getHandle(accountWorkflowId(mailbox.id)).describe();
      letGo = status.name;
    };
    await untilState(mailbox, 'running');
    await stop(mailbox);
    expect(letGo).toBe('RUNNING');
    expect(mailbox.watching).toBe(0);
  });

  it.concurrent('ends when the account does not exist', async () => {
    const gone: Watch = async (mailbox) => {
      mailbox.removed = true;
      throw toFailure(new ApiError('not_found', 'gone'));
    };
    const mailbox = await start([gone]);
    await workers.client.workflow.getHandle(accountWorkflowId(mailbox.id)).result();
    expect(mailbox.watches).toBe(1);
    expect(mailbox.reported).toEqual([]);
  });
});
