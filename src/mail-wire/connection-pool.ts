import { createLimiter, sleep } from '../async.ts';
import type { ServerLogin } from '../contract/account.ts';
import { MailError, type MailSide } from './mail-error.ts';

/** A logged-in connection for one caller; ends with exactly one of giveBack and discard. */
export interface Lease<C> {
  readonly connection: C;
  /** the connection was open before */
  readonly reused: boolean;
  /** @param state.inDoubt it is not known what the connection is in the middle of: it is probed before its next use */
  giveBack(state?: { inDoubt: boolean }): void;
  /** Closes the connection at once. */
  discard(): void;
  /**
   * Closes the connection and opens another one in its place.
   * @throws MailError when that fails; the lease has ended then
   */
  replace(): Promise<Lease<C>>;
}

/** Keeps the logged-in connections of each account open for a while, so that not every command pays a login. */
export interface ConnectionPool<C> {
  /** @throws MailError when none can be opened, or none becomes free in time */
  take(accountId: string, login: ServerLogin): Promise<Lease<C>>;
  /** Ends the connections of an account: the idle ones at once, those in use when they are given back. */
  drop(accountId: string): Promise<void>;
  /** Ends the idle connections of an account. */
  dropIdle(accountId: string): Promise<void>;
  /** Ends every connection for good; those in use are cut. */
  close(): Promise<void>;
}

/**
 * What a failed login means for the account's other callers. `own`: nothing. `all`: those who wait with the same login
 * would fail as well. `limit`: the server allows no more connections than there are, and one of these will do. `cut`: it
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
  /** may be used once more */
  isReusable(connection: C): boolean;
  /** asks the server whether the connection still works; never throws */
  probe(connection: C): Promise<boolean>;
  /** calls back once, when the connection has ended */
  onEnd(connection: C, listener: () => void): void;
  /** says goodbye and closes; never throws */
  end(connection: C): Promise<void>;
  /** closes without a word */
  destroy(connection: C): void;
}

export interface PoolLimits {
  /** connections of one account at a time */
  maxPerAccount: number;
  /** milliseconds after which a connection that nobody uses is ended */
  idleMs: number;
  /** milliseconds that a caller waits for a connection to become free */
  waitMs: number;
  /** milliseconds of idling after which a connection is probed before it is used */
  probeAfterMs: number;
  /** asks others, in whatever process, to end connections to the account's server that can be ended */
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
/** Where no connection can be had beside others (the watch, other mail programs), milliseconds between two attempts. */
const ROOM_INTERVAL_MS = 500;
/** How long a server that hangs up without a reason may mean a limit, in milliseconds. */
const CUT_COUNTS_MS = 5_000;
/** Of an account with room for one connection: how long it is kept while it is used, idle, and left to others then. */
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
 * The connections of one account. Whoever has one of the places may use an idle connection or, where there is none, open
 * one; places are given in the order in which they were asked for. Logins are in memory only while a connection that was
 * opened with them is, or somebody waits for one: `onEmpty` is called when neither is left.
 */
class AccountConnections<C> {
  private readonly accountId: string;
  private readonly protocol: Protocol<C>;
  private readonly limits: PoolLimits;
  private readonly onEmpty: () => void;
  private idle: Idle<C>[] = [];
  private waiting: Waiting[] = [];
  /** places that are taken: connections in use or being opened */
  private taken = 0;
  /** the server refused more connections than this; counts until then */
  private refused = { limit: Infinity, until: 0 };
  /** the one connection is shared in turns with others until then */
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
    const deadline = Date.now() + this.limits.waitMs;
    const cutUntil = Date.now() + CUT_COUNTS_MS;
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
        if (!mayHelp || Date.now() >= until) {
          const concernsAll = meaning === 'all' || (meaning === 'limit' && this.taken === 1);
          if (concernsAll) this.rejectWaiting(error as Error, login);
          this.leave();
          throw error;
        }
      }
      // None of ours is open: others have to make room.
      if (this.taken === 1) {
        await this.awaitRoom();
        continue;
      }
      this.taken -= 1;
      this.refused = { limit: this.taken, until: Date.now() + REFUSAL_COUNTS_MS };
      await this.place(login, deadline, 'first');
    }
  }

  private async awaitRoom(): Promise<void> {
    this.single.until = Date.now() + REFUSAL_COUNTS_MS;
    await this.limits.makeRoom?.(this.accountId).catch(() => {});
    await sleep(ROOM_INTERVAL_MS);
  }

  /** Fails those who wait; with a login given, those with the same. */
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

  /** Waits for a place; one that lost its place to the server's limit waits in front of all others. */
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
      const timer = setTimeout(giveUp, Math.max(0, deadline - Date.now()));
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
    return Date.now() < until ? Math.min(limit, this.limits.maxPerAccount) : this.limits.maxPerAccount;
  }

  private async open(login: ServerLogin): Promise<C> {
    if (this.isSingle) await sleep(Math.max(0, this.single.notBefore - Date.now()));
    const connection = await this.protocol.open(login, this.exclusive);
    this.single.turnSince = Date.now();
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
    return Date.now() < this.single.until;
  }

  private get isTurnOver(): boolean {
    return this.isSingle && Date.now() - this.single.turnSince >= SINGLE.turnMs;
  }

  /** Leaves the one connection that the server allows to others for a moment. */
  private endTurn(connection: C): void {
    this.single.notBefore = Date.now() + SINGLE.pauseMs;
    void this.protocol.end(connection);
  }

  private keep(connection: C, login: ServerLogin, inDoubt: boolean): void {
    const end = () => void this.endIdle((each) => each.connection === connection);
    const timer = setTimeout(end, this.isSingle ? SINGLE.idleMs : this.limits.idleMs).unref();
    this.idle.push({ connection, login, since: Date.now(), inDoubt, timer });
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
    if (!inDoubt && Date.now() - since < this.limits.probeAfterMs) return true;
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
