import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { type Client, WorkflowNotFoundError } from '@temporalio/client';
import { sql } from 'drizzle-orm';
import { createLoginTurns } from '../../src/activities/login-turns.ts';
import { checkAccounts, type HealthDeps } from '../../src/maintenance/account-health.ts';
import { changeAccount, changeStatus, getAccount } from '../../src/db/queries/accounts.ts';
import { holdLogins, takeLogin } from '../../src/db/coordination/login-budget.ts';
import { createLogger } from '../../src/runtime/logger.ts';
import { MailError } from '../../src/mail-wire/mail-error.ts';
import { saveWatchFailure, touchSynced } from '../../src/mailbox/settings.ts';
import { accountWorkflowId, SEARCH_KEYS, SIGNALS, verifyWorkflowId, WORKFLOWS } from '../../src/workflows/names.ts';
import { type Deliveries, deliveryTests } from '../helpers/product/deliveries.ts';
import { waitFor } from '../helpers/assert/wait.ts';
import { storeAccount } from '../helpers/product/stored-account.ts';
import { storedEvents } from '../helpers/product/stored-events.ts';

const startDeliveries = deliveryTests();
let the: Deliveries;
let deps: HealthDeps;

beforeAll(async () => {
  the = await startDeliveries();
  deps = {
    db: the.db,
    client: the.client,
    logger: createLogger('silent', 'test'),
    pollMs: 1_000,
    heartbeatTimeoutMs: 4_000,
    ensureSearchAttributes: async () => {},
  };
});
afterAll(() => the.stop());

const setSynced = (id: string, minutesAgo: number) =>
  the.db.execute(
    sql`update accounts set last_synced_at = now() - make_interval(mins => ${minutesAgo}) where id = ${id}`,
  );
const statusOf = async (id: string) => {
  const account = await getAccount(the.db, id);
  return [account?.status, account?.status_detail];
};
const eventsOf = async (id: string) => (await storedEvents(the, id)).map(({ type }) => type);
const isRunning = async (id: string) =>
  the.client.workflow
    .getHandle(accountWorkflowId(id))
    .describe()
    .then(
      ({ status }) => status.name === 'RUNNING',
      () => false,
    );

describe('an account that is not in sync', () => {
  it('gets its workflow started, no matter how it ended', async () => {
    const id = await storeAccount(the);
    await setSynced(id, 0);
    await checkAccounts(deps);
    expect(await isRunning(id)).toBe(false);
    await setSynced(id, 1);
    await checkAccounts(deps);
    expect(await isRunning(id)).toBe(true);
    await the.client.workflow.getHandle(accountWorkflowId(id)).terminate('by hand');
    await checkAccounts(deps);
    expect(await isRunning(id)).toBe(true);
    expect(await statusOf(id)).toEqual(['running', '']);
    await the.client.workflow.getHandle(accountWorkflowId(id)).terminate('the test ends');
  });

  it('gets its workflow started within a minute also when it has been late for hours', async () => {
    const id = await storeAccount(the);
    await setSynced(id, 300);
    await checkAccounts(deps);
    await the.client.workflow.getHandle(accountWorkflowId(id)).terminate('by hand');
    await waitFor(
      async () => {
        await checkAccounts(deps);
        return isRunning(id);
      },
      { timeoutMs: 20_000 },
    );
  });

  it('reports it after five minutes, once, with the reason, and when it is in sync again', async () => {
    const id = await storeAccount(the);
    await setSynced(id, 6);
    await saveWatchFailure(the.db, id, 'the storage is full');
    for (let i = 0; i < 2; i++) await checkAccounts(deps);
    expect(await statusOf(id)).toEqual([
      'running',
      expect.stringMatching(/^not in sync since 20[-\d]+T[\d:.]+Z: the storage is full$/),
    ]);
    expect(await eventsOf(id)).toEqual(['account.status.running']);
    await touchSynced(the.db, { accountId: id, watchEpoch: null }, new Date());
    for (let i = 0; i < 2; i++) await checkAccounts(deps);
    expect(await statusOf(id)).toEqual(['running', '']);
    expect(await eventsOf(id)).toEqual(['account.status.running', 'account.status.running']);
    await the.client.workflow.getHandle(accountWorkflowId(id)).terminate('the test ends');
  });

  it('does not keep others from being reported as in sync again: they are, though one is locked for long', async () => {
    const ids = await Promise.all(Array.from({ length: 102 }, () => storeAccount(the)));
    const since = sql`now() - interval '6 minutes'`;
    await the.db.execute(
      sql`update accounts set last_synced_at = now(), not_in_sync_since = ${since} where id = any(${sql.param(ids)}::text[])`,
    );
    const marked = async () => {
      const { rows } = await the.db.execute<{ id: string }>(sql`
        select id from accounts where not_in_sync_since is not null and id = any(${sql.param(ids)}::text[])`);
      return rows.map(({ id }) => id);
    };
    const [locked = ''] = ids;
    await the.db.transaction(async (tx) => {
      await tx.execute(sql`select from accounts where id = ${locked} for no key update`);
      await checkAccounts(deps);
      expect(await marked()).toEqual([locked]);
    });
    await checkAccounts(deps);
    expect(await marked()).toEqual([]);
    expect(await eventsOf(locked)).toEqual(['account.status.running']);
    await the.db.execute(sql`delete from accounts where id = any(${sql.param(ids)}::text[])`);
  });

  it('is not reported while its mailbox is not watched, and no longer once it is not', async () => {
    const id = await storeAccount(the);
    await setSynced(id, 6);
    await checkAccounts(deps);
    expect(await statusOf(id)).toEqual(['running', expect.stringMatching(/^not in sync since/)]);
    await the.db.transaction((tx) => changeAccount(tx, id, { watch: false }));
    for (let i = 0; i < 2; i++) await checkAccounts(deps);
    expect(await statusOf(id)).toEqual(['running', '']);
    expect(await eventsOf(id)).toEqual(['account.status.running', 'account.status.running']);
    expect(await isRunning(id)).toBe(true);
    await the.client.workflow.getHandle(accountWorkflowId(id)).terminate('the test ends');
  });

  it('is not reported again at once when it is to be followed after days, and not with an earlier reason', async () => {
    const id = await storeAccount(the);
    await setSynced(id, 3 * 24 * 60);
    await saveWatchFailure(the.db, id, 'the storage is full');
    await the.db.transaction((tx) => changeAccount(tx, id, { watch: false }));
    await the.db.transaction((tx) => changeAccount(tx, id, { watch: true }));
    await checkAccounts(deps);
    expect(await statusOf(id)).toEqual(['running', '']);
    await the.db.execute(sql`update accounts set followed_since = now() - interval '6 minutes' where id = ${id}`);
    await checkAccounts(deps);
    expect(await statusOf(id)).toEqual(['running', expect.stringMatching(/no worker watches the mailbox$/)]);
    const followed = new Date(Date.now() - 6 * 60_000).toISOString().slice(0, 15);
    const changed = await the.db.transaction((tx) => changeStatus(tx, id, { status: 'errored', detail: 'away' }));
    expect(changed?.detail).toContain(`not in sync since ${followed}`);
    await the.client.workflow.getHandle(accountWorkflowId(id)).terminate('the test ends');
  });

  it.each([
    { state: 'disconnected', watch: true, isSignalled: true },
    { state: 'disconnected', watch: false, isSignalled: true },
    { state: 'unwatched', watch: true, isSignalled: true },
    { state: 'unwatched', watch: false, isSignalled: false },
    { state: 'connecting', watch: true, isSignalled: false },
  ])('has its workflow, $state, load it again where watch is $watch: $isSignalled', async (given) => {
    const { state, watch, isSignalled } = given;
    const id = await storeAccount(the);
    // as a process leaves them that was killed before it sent the signal
    await the.db.execute(sql`update accounts set watch = ${watch} where id = ${id}`);
    await setSynced(id, 1);
    const workflow = await the.client.workflow.start(WORKFLOWS.account, {
      workflowId: accountWorkflowId(id),
      taskQueue: 'without-workers',
      args: [{ accountId: id }],
      typedSearchAttributes: [{ key: SEARCH_KEYS.mailStatus, value: state }],
    });
    await checkAccounts(deps);
    const { events } = await workflow.fetchHistory();
    const signals = events?.flatMap(({ workflowExecutionSignaledEventAttributes: signal }) => signal?.signalName ?? []);
    expect(signals).toEqual(isSignalled ? [SIGNALS.reconnected] : []);
    await workflow.terminate('the test ends');
  });

  it('is not started while its password is refused', async () => {
    const id = await storeAccount(the);
    await setSynced(id, 60);
    await the.db.execute(sql`update accounts set status = 'disconnected', status_detail = 'refused' where id = ${id}`);
    await checkAccounts(deps);
    expect(await isRunning(id)).toBe(false);
    expect(await statusOf(id)).toEqual(['disconnected', 'refused']);
  });
});

/** What Temporal is asked to start at one look; `refuses`: it is away. */
async function startsOf(look: { refuses?: string; running?: number } = {}): Promise<string[]> {
  const started: string[] = [];
  const start = async (type: string, { workflowId }: { workflowId: string }) => {
    if (type === look.refuses) throw new Error('Temporal is away');
    started.push(workflowId);
  };
  const getHandle = (workflowId: string) => ({
    describe: async () => {
      throw new WorkflowNotFoundError('no such run', workflowId, undefined);
    },
  });
  const count = async () => ({ count: look.running ?? 1_000_000 });
  await checkAccounts({ ...deps, client: { workflow: { start, count, getHandle } } as unknown as Client });
  return started;
}

describe('mailboxes whose servers are gone', () => {
  const DEAD = 450;
  const dead: string[] = [];
  beforeAll(async () => {
    for (let i = 0; i < DEAD; i++) dead.push(await storeAccount(the));
    await the.db.execute(sql`update accounts set status = 'errored', last_synced_at = now() - interval '7 days'
      where id = any(${sql.param(dead)}::text[])`);
  });
  afterAll(() => the.db.execute(sql`delete from accounts where id = any(${sql.param(dead)}::text[])`));

  it('are asked for once an hour, and do not delay one that has just become late', async () => {
    const ofDead = (started: string[]) => started.filter((id) => dead.map(accountWorkflowId).includes(id));
    const asked = ofDead(await startsOf());
    const late = await storeAccount(the);
    await setSynced(late, 1);
    const next = await startsOf();
    expect(next).toContain(accountWorkflowId(late));
    asked.push(...ofDead(next), ...ofDead(await startsOf()));
    // 200 at a look, which other accounts of this file may be among
    expect(asked.toSorted()).toEqual(dead.map(accountWorkflowId).toSorted());
    expect(ofDead(await startsOf())).toEqual([]);
    await the.db.execute(sql`update accounts set run_ensured_at = run_ensured_at - interval '61 minutes'`);
    expect(ofDead(await startsOf()).length).toBeGreaterThan(100);
    await setSynced(late, 0);
  });

  it('are all asked for at the next check when Temporal runs fewer workflows than there are accounts', async () => {
    await startsOf();
    await the.db.execute(sql`update accounts set run_ensured_at = now() where id = any(${sql.param(dead)}::text[])`);
    const ofDead = (started: string[]) => started.filter((id) => dead.map(accountWorkflowId).includes(id));
    expect(ofDead(await startsOf())).toEqual([]);
    expect(ofDead(await startsOf({ running: DEAD - 1 })).toSorted()).toEqual(dead.map(accountWorkflowId).toSorted());
  });

  it('are asked for at the next look where Temporal did not respond', async () => {
    const late = await storeAccount(the);
    await setSynced(late, 1);
    await expect(startsOf({ refuses: WORKFLOWS.account })).rejects.toThrow('Temporal is away');
    expect(await startsOf()).toContain(accountWorkflowId(late));
    await setSynced(late, 0);
  });
});

describe('the daily verification', () => {
  it('is due until Temporal has begun it', async () => {
    const id = await storeAccount(the);
    await the.db.execute(sql`update accounts set connected_at = now() - interval '25 hours', last_synced_at = now()
      where id = ${id}`);
    await expect(startsOf({ refuses: WORKFLOWS.verifyMailbox })).rejects.toThrow('Temporal is away');
    expect(await startsOf()).toContain(verifyWorkflowId(id));
    expect(await startsOf()).not.toContain(verifyWorkflowId(id));
  });
});

describe('the logins at one provider', () => {
  it('come after one another once a burst is used up', async () => {
    const waits: number[] = [];
    for (let i = 0; i < 90; i++) waits.push(await takeLogin(the.db, 'Mail.Example.test', 60));
    expect(waits.slice(0, 60).every((wait) => wait === 0)).toBe(true);
    expect(waits[89]).toBeGreaterThan(25_000);
    expect(waits[89]).toBeLessThanOrEqual(30_000);
    expect(await takeLogin(the.db, 'other.example.test', 60)).toBe(0);
  });

  it('wait where the provider asked for patience', async () => {
    await holdLogins(the.db, 'busy.example.test', 20_000);
    expect(await takeLogin(the.db, 'busy.example.test', 60)).toBeGreaterThan(15_000);
  });

  it('are half as many after a provider asked for fewer, however many it refused at once, and recover', async () => {
    const host = 'strict.example.test';
    const dueAt = async () => {
      await takeLogin(the.db, host, 600);
      const { rows } = await the.db.execute<{ at: number }>(
        sql`select extract(epoch from next_at)::float8 as at from login_budgets where host = ${host}`,
      );
      return rows[0]!.at * 1000;
    };
    const gap = async () => {
      const earlier = await dueAt();
      return (await dueAt()) - earlier;
    };
    const pass = () => the.db.execute(sql`update login_budgets set next_at = now() where host = ${host}`);
    await takeLogin(the.db, host, 600);
    const refused = async () => {
      for (let i = 0; i < 3; i++) await holdLogins(the.db, host, 20_000);
    };
    await refused();
    expect(await gap()).toBeCloseTo(200, -1);
    await pass();
    await refused();
    expect(await gap()).toBeCloseTo(400, -2);
    for (let i = 0; i < 300; i++) await takeLogin(the.db, host, 600);
    expect(await gap()).toBeCloseTo(100, -1);
  });

  it('that wait in one process are all held up when one is refused', async () => {
    const host = 'line.example.test';
    const turns = createLoginTurns({ db: the.db, logger: createLogger('silent', 'test'), perMinute: 60 });
    const signal = new AbortController();
    let passed = 0;
    const waiting = Array.from({ length: 70 }, () => turns.wait(host, signal.signal).then(() => (passed += 1)));
    await waitFor(() => passed >= 60);
    const error = new MailError('provider_error', 'imap', 'too many logins');
    await turns.obeyRefusal({ host, error, onPause: async () => {} }, signal.signal);
    const before = passed;
    await new Promise((resolve) => setTimeout(resolve, 3_000));
    expect(passed - before).toBeLessThanOrEqual(1);
    // one that is aborted does not wait for its turn
    const aborted = new AbortController();
    const last = turns.wait(host, aborted.signal);
    aborted.abort();
    await last;
    expect(passed).toBeLessThan(70);
    signal.abort();
    await Promise.all(waiting);
  });
});
