import { EventEmitter } from 'node:events';
import { beforeEach, describe, expect, test } from '@jest/globals';
import {
  type ConnectionPool,
  createConnectionPool,
  type LoginFailure,
  type PoolLimits,
} from '../../src/mail-wire/connection-pool.ts';
import type { ServerLogin } from '../../src/contract/account.ts';
import { waitForCollected } from '../helpers/fakes/garbage.ts';
import { waitFor } from '../helpers/assert/wait.ts';

class Connection extends EventEmitter {
  state: 'open' | 'ended' | 'destroyed' = 'open';
  probes = 0;
  works = true;
  close(state: 'ended' | 'destroyed'): void {
    if (this.state !== 'open') return;
    this.state = state;
    this.emit('end');
  }
}

class LoginFailed extends Error {
  readonly meaning: LoginFailure;
  constructor(meaning: LoginFailure) {
    super('the login failed');
    this.meaning = meaning;
  }
}

let opened: Connection[];
/** the results of the next logins; undefined: success */
let failures: (LoginFailure | undefined)[];

beforeEach(() => {
  opened = [];
  failures = [];
});

function poolOf(limits: Partial<PoolLimits> = {}): ConnectionPool<Connection> {
  return createConnectionPool<Connection>(
    {
      side: 'imap',
      async open() {
        const failure = failures.shift();
        if (failure) throw new LoginFailed(failure);
        const connection = new Connection();
        opened.push(connection);
        return connection;
      },
      meaningOf: (failure) => (failure as LoginFailed).meaning,
      isReusable: ({ state }) => state === 'open',
      async probe(connection) {
        connection.probes++;
        return connection.works;
      },
      onEnd: (connection, listener) => void connection.once('end', listener),
      end: async (connection) => connection.close('ended'),
      destroy: (connection) => connection.close('destroyed'),
    },
    { maxPerAccount: 2, idleMs: 60_000, waitMs: 10_000, probeAfterMs: 60_000, ...limits },
  );
}

const login = (password = 'secret'): ServerLogin => ({
  host: 'mail.example',
  port: 993,
  user: 'paula',
  password,
  encryption: 'SSL',
});
const states = () => opened.map(({ state }) => state);

describe('a connection', () => {
  test('is reused, the last released first', async () => {
    const pool = poolOf();
    const [one, two] = [await pool.take('acc', login()), await pool.take('acc', login())];
    expect([one.reused, two.reused]).toEqual([false, false]);
    one.giveBack();
    two.giveBack();
    const next = await pool.take('acc', login());
    expect([next.reused, next.connection === two.connection]).toEqual([true, true]);
  });

  test('in doubt is probed before its next use, and replaced when it does not work', async () => {
    const pool = poolOf();
    const first = await pool.take('acc', login());
    first.giveBack({ inDoubt: true });
    const again = await pool.take('acc', login());
    expect([again.connection === first.connection, first.connection.probes]).toEqual([true, 1]);
    first.connection.works = false;
    again.giveBack({ inDoubt: true });
    expect((await pool.take('acc', login())).reused).toBe(false);
    expect(states()).toEqual(['ended', 'open']);
  });

  test('that the server has closed is not used', async () => {
    const pool = poolOf();
    (await pool.take('acc', login())).giveBack();
    opened[0]?.close('ended');
    expect((await pool.take('acc', login())).reused).toBe(false);
  });

  test('of another login is closed', async () => {
    const pool = poolOf();
    (await pool.take('acc', login())).giveBack();
    expect((await pool.take('acc', login('changed'))).reused).toBe(false);
    expect(states()).toEqual(['ended', 'open']);
  });

  test('is closed by drop: immediately if idle, else when it is released', async () => {
    const pool = poolOf();
    const [busy, idle] = [await pool.take('acc', login()), await pool.take('acc', login())];
    idle.giveBack();
    await pool.drop('acc');
    expect(states()).toEqual(['open', 'ended']);
    busy.giveBack();
    expect(states()).toEqual(['ended', 'ended']);
  });

  test('is cut by close when it is in use, and no new one is opened', async () => {
    const pool = poolOf({ maxPerAccount: 1 });
    await pool.take('acc', login());
    const waiting = pool.take('acc', login());
    const failed = expect(waiting).rejects.toMatchObject({ detail: 'the service is shutting down' });
    await pool.close();
    await failed;
    expect(states()).toEqual(['destroyed']);
    await expect(pool.take('acc', login())).rejects.toMatchObject({ code: 'provider_error' });
  });

  test('that was discarded or replaced is closed, and its slot is free', async () => {
    const pool = poolOf({ maxPerAccount: 1 });
    const replaced = await (await pool.take('acc', login())).replace();
    replaced.discard();
    expect(states()).toEqual(['destroyed', 'destroyed']);
    const last = await pool.take('acc', login());
    failures = ['own'];
    await expect(last.replace()).rejects.toThrow(LoginFailed);
    (await pool.take('acc', login())).giveBack();
  });
});

describe('a failed login', () => {
  /** Two connections in use, and two waiting callers. */
  async function crowded() {
    const pool = poolOf();
    const inUse = [await pool.take('acc', login()), await pool.take('acc', login())];
    const order: string[] = [];
    const wait = (name: string, password?: string) => {
      const taken = pool.take('acc', login(password));
      taken.then(
        () => order.push(name),
        () => order.push(`${name} failed`),
      );
      return taken;
    };
    return { pool, inUse, order, wait };
  }

  test('that concerns the caller only leaves the others waiting', async () => {
    const { inUse, order, wait } = await crowded();
    failures = ['own'];
    const [first, second] = [wait('first'), wait('second')];
    inUse[0]?.discard();
    await expect(first).rejects.toThrow(LoginFailed);
    await second;
    expect(order).toEqual(['first failed', 'second']);
  });

  test('that concerns all rejects waiting callers with the same login', async () => {
    const { inUse, order, wait } = await crowded();
    failures = ['all'];
    const all = [wait('first'), wait('second'), wait('third', 'changed')];
    inUse[0]?.discard();
    await Promise.allSettled(all);
    expect(order).toEqual(['first failed', 'second failed', 'third']);
  });

  test('because of the limit waits in front of the others for a connection in use', async () => {
    const { inUse, order, wait } = await crowded();
    failures = ['limit'];
    const all = [wait('first'), wait('second')];
    inUse[0]?.discard();
    await waitFor(() => failures.length === 0);
    expect(order).toEqual([]);
    inUse[1]?.giveBack();
    const first = await (all[0] as (typeof all)[number]);
    expect(first.connection).toBe(inUse[1]?.connection);
    first.giveBack();
    await all[1];
    expect([order, opened.length]).toEqual([['first', 'second'], 2]);
  });

  test('because of the limit rejects all waiting callers when no connection is open', async () => {
    const { inUse, order, wait } = await crowded();
    failures = ['limit', 'limit'];
    const all = [wait('first'), wait('second')];
    for (const each of inUse) each.discard();
    await Promise.allSettled(all);
    expect(order.sort()).toEqual(['first failed', 'second failed']);
  });
});

describe('the login of a connection leaves memory', () => {
  const ended: [string, (pool: ConnectionPool<Connection>) => Promise<void> | void][] = [
    ['when the connection was not used for a while', () => {}],
    ['when the server ends the connection', () => opened[0]?.close('ended')],
    ['when the account is dropped', (pool) => pool.drop('acc')],
  ];
  test.each(ended)('%s', async (_, end) => {
    const pool = poolOf({ idleMs: 50 });
    const use = async () => {
      const given = login();
      (await pool.take('acc', given)).giveBack();
      return new WeakRef(given);
    };
    const given = await use();
    await end(pool);
    await waitForCollected(given, 'the login');
  });

  test('when no caller waits for one', async () => {
    const pool = poolOf({ maxPerAccount: 1, waitMs: 1 });
    await pool.take('acc', login());
    const wait = async () => {
      const given = login();
      await expect(pool.take('acc', given)).rejects.toThrow();
      return new WeakRef(given);
    };
    await waitForCollected(await wait(), 'the login');
  });
});
