import { createLimiter, sleep } from '../async.ts';
import type { ServerLogin } from '../contract/account.ts';
import { MailError, type MailSide } from './mail-error.ts';

/** A logged-in connection for one caller; ends with exactly one of giveBack and discard. */
export interface Lease<C> {
  readonly connection: C;
  /** the connection was open before */
  readonly reused: boolean;
  /** @param state.inDoubt the state of the connection is unknown: probe it before its next use */
  giveBack(state?: { inDoubt: boolean }): void;
  /** Closes the connection immediately. */
  discard(): void;
  /**
   * Closes the connection and opens another one in its place.
   * @throws MailError when that fails; the lease has ended then
   */
  replace(): Promise<Lease<C>>;
}

/** Keeps the logged-in connections of each account open for a while: not every command needs a login. */
export interface ConnectionPool<C> {
  /** @throws MailError when none can be opened, or none becomes free in time */
  take(accountId: string, login: ServerLogin): Promise<Lease<C>>;
  /** Closes the connections of an account: idle ones immediately, those in use when they are released. */
  drop(accountId: string): Promise<void>;
  /** Closes the idle connections of an account. */
  dropIdle(accountId: string): Promise<void>;
  /** Closes every connection, including those in use; the pool cannot be used afterwards. */
  close(): Promise<void>;
}

/**
 * What a failed login means for the account's other callers. `own`: nothing. `all`: callers that wait with the same login
 * would fail too. `limit`: the server allows no further connection; the caller waits for an open one. `cut`: the server
 * hung up without a reason, which may mean the same.
 */
export type LoginFailure = 'own' | 'all' | 'limit' | 'cut';

/** Runs such works one at a time among all connections of the account. */
export type Exclusive = <T>(work: () => Promise<T>) => Promise<T>;

/** What the pool must know of IMAP or SMTP. */
export interface Protocol<C> {
  side: MailSide;
  /** Connects and logs in. @throws MailError */
  open(login: ServerLogin, exclusive: Exclusive): Promise<C>;
  meaningOf(failure: unknown): LoginFailure;
  /** may be used again */
  isReusable(connection: C): boolean;
  /** asks the server whether the connection still works; never throws */
  probe(connection: C): Promise<boolean>;
  /** calls back once, when the connection has ended */
  onEnd(connection: C, listener: () => void): void;
  /** logs out and closes; never throws */
  end(connection: C): Promise<void>;
  /** closes without logging out */
  destroy(connection: C): void;
}

export interface PoolLimits {
  /** connections of one account at a time */
  maxPerAccount: number;
  /** milliseconds after which an unused connection is closed */
  idleMs: number;
  /** milliseconds that a caller waits for a connection to become free */
  waitMs: number;
  /** milliseconds of idling after which a connection is probed before it is used */
  probeAfterMs: number;
  /** asks other users of the account's mailbox, in all processes, to close connections that they can spare */
  makeRoom?(accountId: string): Promise<void>;
}

/** A pool without connections; one per process and protocol. */
export function createConnectionPool<C>(protocol: Protocol<C>, limits: PoolLimits): ConnectionPool<C> {
  const accounts = new Map<string, AccountConnections<C>>();
  const connections = new Set<C>();
  let closed = false;
  const shuttingDown = () => new MailError('provider_error', protocol.side, 'the service is shutting down');

  const open: Protocol<C>['open'] = async (login, exclusive) => {
    const connection = await protocol.open(login, exclusive);
    if (closed) {
      protocol.destroy(connection);
      throw shuttingDown();
    }
    connections.add(connection);
    protocol.onEnd(connection, () => connections.delete(connection));
    return connection;
  };

  const connectionsOf = (accountId: string): AccountConnections<C> => {
    const present = accounts.get(accountId);
    if (present) return present;
    const created: AccountConnections<C> = new AccountConnections(accountId, { ...protocol, open }, limits, () => {
      if (accounts.get(accountId) === created) accounts.delete(accountId);
    });
    accounts.set(accountId, created);
    return created;
  };

  const drop = async (accountId: string): Promise<void> => {
    const account = accounts.get(accountId);
    accounts.delete(accountId);
    await account?.drop();
  };

  return {
    async take(accountId, login) {
      if (closed) throw shuttingDown();
      return connectionsOf(accountId).take(login);
    },
    drop,
    dropIdle: async (accountId) => accounts.get(accountId)?.dropIdle(),
    async close() {
      closed = true;
      for (const account of accounts.values()) account.rejectWaiting(shuttingDown());
      await Promise.all([...accounts.keys()].map(drop));
      for (const connection of connections) protocol.destroy(connection);
    },
  };
}

/** How long a server's refusal of one more connection counts, in milliseconds. */
const REFUSAL_COUNTS_MS = 60_000;
/** When others (the watch, other mail programs) use all connections: milliseconds between two attempts. */
const ROOM_INTERVAL_MS = 500;
/** How long a server that hangs up without a reason may mean a limit, in milliseconds. */
const CUT_COUNTS_MS = 5_000;
/** For an account with one connection: how long it stays open in use and idle, and how long it is then left to others. */
const SINGLE = { turnMs: 5_000, idleMs: 500, pauseMs: 2_000 };

/** An open connection: in use ⇄ idle → ended. */
interface Idle<C> {
  connection: C;
  login: ServerLogin;
  since: number;
  inDoubt: boolean;
  timer: NodeJS.Timeout;
}

interface Waiting {
  login: ServerLogin;
  enter(): void;
  reject(error: Error): void;
}

/**
 * The connections of one account. A caller with a slot may use an idle connection or else open one; slots are assigned in
 * the order of the requests. Logins are in memory only while a connection opened with them exists, or a caller waits for
 * one: then `onEmpty` is called.
 */
class AccountConnections<C> {
  private readonly accountId: string;
  private readonly protocol: Protocol<C>;
  private readonly limits: PoolLimits;
  private readonly onEmpty: () => void;
  private idle: Idle<C>[] = [];
  private waiting: Waiting[] = [];
  /** taken slots: connections in use or being opened */
  private taken = 0;
  /** the server refused more connections than `limit`; valid until then */
  private refused = { limit: Infinity, until: 0 };
  /** until then the one connection is used in turns with others */
  private single = { until: 0, turnSince: 0, notBefore: 0 };
  private dropped = false;
  private readonly exclusive = createLimiter(1);

  constructor(accountId: string, protocol: Protocol<C>, limits: PoolLimits, onEmpty: () => void) {
    this.accountId = accountId;
    this.protocol = protocol;
    this.limits = limits;
    this.onEmpty = onEmpty;
  }

  /** @throws MailError */
  async take(login: ServerLogin): Promise<Lease<C>> {
    const deadline = performance.now() + this.limits.waitMs;
    const cutUntil = performance.now() + CUT_COUNTS_MS;
    await this.place(login, deadline, 'last');
    for (;;) {
      try {
        const idle = await this.takeIdle(login);
        if (idle !== undefined) return this.lease(idle, login, true);
        return this.lease(await this.open(login), login, false);
      } catch (error) {
        const meaning = this.protocol.meaningOf(error);
        // Without a connection of ours, waiting helps only where others can make room.
        const mayHelp = this.taken > 1 || this.limits.makeRoom !== undefined;
        const until = meaning === 'limit' ? deadline : meaning === 'cut' ? Math.min(deadline, cutUntil) : 0;
        if (!mayHelp || performance.now() >= until) {
          const concernsAll = meaning === 'all' || (meaning === 'limit' && this.taken === 1);
          if (concernsAll) this.rejectWaiting(error as Error, login);
          this.leave();
          throw error;
        }
      }
      // None of ours is open: others must make room.
      if (this.taken === 1) {
        await this.awaitRoom();
        continue;
      }
      this.taken -= 1;
      this.refused = { limit: this.taken, until: performance.now() + REFUSAL_COUNTS_MS };
      await this.place(login, deadline, 'first');
    }
  }

  private async awaitRoom(): Promise<void> {
    this.single.until = performance.now() + REFUSAL_COUNTS_MS;
    await this.limits.makeRoom?.(this.accountId).catch(() => {});
    await sleep(ROOM_INTERVAL_MS);
  }

  /** Rejects waiting callers; with `login`, only those with the same login. */
  rejectWaiting(error: Error, login?: ServerLogin): void {
    const failing = this.waiting.filter((each) => !login || isSame(each.login, login));
    this.waiting = this.waiting.filter((each) => !failing.includes(each));
    for (const { reject } of failing) reject(error);
  }

  async drop(): Promise<void> {
    this.dropped = true;
    await this.endIdle(() => true);
  }

  dropIdle(): Promise<void> {
    return this.endIdle(() => true);
  }

  /** Waits for a slot; a caller that lost its slot to the server's limit waits in front of all others. */
  private place(login: ServerLogin, deadline: number, order: 'first' | 'last'): Promise<void> {
    if (this.taken < this.limit && this.waiting.length === 0) {
      this.taken += 1;
      return Promise.resolve();
    }
    return new Promise((resolve, reject) => {
      const waiting: Waiting = {
        login,
        enter: () => {
          clearTimeout(timer);
          this.taken += 1;
          resolve();
        },
        reject: (error) => {
          clearTimeout(timer);
          reject(error);
        },
      };
      const giveUp = () => {
        this.waiting = this.waiting.filter((each) => each !== waiting);
        const { side } = this.protocol;
        reject(new MailError('provider_error', side, `all ${side.toUpperCase()} connections of this mailbox are busy`));
      };
      const timer = setTimeout(giveUp, Math.max(0, deadline - performance.now()));
      if (order === 'first') this.waiting.unshift(waiting);
      else this.waiting.push(waiting);
    });
  }

  private leave(): void {
    this.taken -= 1;
    while (this.taken < this.limit && this.waiting.length > 0) this.waiting.shift()?.enter();
    this.reportEmpty();
  }

  private get limit(): number {
    const { limit, until } = this.refused;
    return performance.now() < until ? Math.min(limit, this.limits.maxPerAccount) : this.limits.maxPerAccount;
  }

  private async open(login: ServerLogin): Promise<C> {
    if (this.isSingle) await sleep(Math.max(0, this.single.notBefore - performance.now()));
    const connection = await this.protocol.open(login, this.exclusive);
    this.single.turnSince = performance.now();
    this.protocol.onEnd(connection, () => void this.endIdle((each) => each.connection === connection));
    return connection;
  }

  private lease(connection: C, login: ServerLogin, reused: boolean): Lease<C> {
    const { protocol } = this;
    return {
      connection,
      reused,
      giveBack: ({ inDoubt } = { inDoubt: false }) => {
        if (this.dropped || !protocol.isReusable(connection)) void protocol.end(connection);
        else if (this.isTurnOver) this.endTurn(connection);
        else this.keep(connection, login, inDoubt);
        this.leave();
      },
      discard: () => {
        protocol.destroy(connection);
        this.leave();
      },
      replace: async () => {
        protocol.destroy(connection);
        try {
          return this.lease(await this.open(login), login, false);
        } catch (error) {
          this.leave();
          throw error;
        }
      },
    };
  }

  private get isSingle(): boolean {
    return performance.now() < this.single.until;
  }

  private get isTurnOver(): boolean {
    return this.isSingle && performance.now() - this.single.turnSince >= SINGLE.turnMs;
  }

  /** Leaves the one connection that the server allows to others for a moment. */
  private endTurn(connection: C): void {
    this.single.notBefore = performance.now() + SINGLE.pauseMs;
    void this.protocol.end(connection);
  }

  private keep(connection: C, login: ServerLogin, inDoubt: boolean): void {
    const end = () => void this.endIdle((each) => each.connection === connection);
    const timer = setTimeout(end, this.isSingle ? SINGLE.idleMs : this.limits.idleMs).unref();
    this.idle.push({ connection, login, since: performance.now(), inDoubt, timer });
  }

  /** The connection that was used last, if it still works; those of other logins are ended. */
  private async takeIdle(login: ServerLogin): Promise<C | undefined> {
    await this.endIdle((each) => !isSame(each.login, login));
    for (let last = this.idle.pop(); last; last = this.idle.pop()) {
      clearTimeout(last.timer);
      if (await this.works(last)) return last.connection;
      await this.protocol.end(last.connection);
    }
    return undefined;
  }

  private async works({ connection, inDoubt, since }: Idle<C>): Promise<boolean> {
    if (!this.protocol.isReusable(connection)) return false;
    if (!inDoubt && performance.now() - since < this.limits.probeAfterMs) return true;
    return this.protocol.probe(connection);
  }

  private async endIdle(which: (idle: Idle<C>) => boolean): Promise<void> {
    const ending = this.idle.filter(which);
    this.idle = this.idle.filter((each) => !ending.includes(each));
    for (const { timer } of ending) clearTimeout(timer);
    if (ending.length > 0) this.reportEmpty();
    await Promise.all(ending.map(({ connection }) => this.protocol.end(connection)));
  }

  private reportEmpty(): void {
    if (this.taken === 0 && this.idle.length === 0 && this.waiting.length === 0) this.onEmpty();
  }
}

function isSame(one: ServerLogin, other: ServerLogin): boolean {
  return (['host', 'port', 'user', 'password', 'encryption'] as const).every((name) => one[name] === other[name]);
}
