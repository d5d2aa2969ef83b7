import { once } from 'node:events';
import type pg from 'pg';

interface Timer {
  at: number;
  run(): void;
  everyMs?: number;
}

const REAL = { setTimeout, clearTimeout, setInterval, clearInterval };
const REAL_NOW = performance.now.bind(performance);

/**
 * Time that passes only when every statement has ended: the timers and `performance.now` of this process, and `now()` of
 * one database. An hour takes as long as what happens in it.
 */
export class VirtualTime {
  readonly #timers = new Map<number, Timer>();
  readonly #start = REAL_NOW();
  readonly #startedAt = Date.now();
  #now = this.#start;
  #lastId = 0;

  /** Milliseconds since the start. */
  get elapsed(): number {
    return this.#now - this.#start;
  }

  /** Replaces the timers of this process until `restore`. */
  install(): void {
    const set = (run: () => void, ms = 0, everyMs?: number) => {
      const id = (this.#lastId += 1);
      const timer = { at: this.#now + Math.max(1, ms), run, ...(everyMs === undefined ? {} : { everyMs }) };
      this.#timers.set(id, timer);
      const handle = { ref: () => handle, unref: () => handle, hasRef: () => true, [Symbol.toPrimitive]: () => id };
      return handle;
    };
    const clear = (handle: unknown) => {
      if (handle !== undefined && handle !== null) this.#timers.delete(Number(handle));
    };
    const bound = (run: (...args: unknown[]) => void, args: unknown[]) => () => run(...args);
    Object.assign(globalThis, {
      setTimeout: (run: () => void, ms?: number, ...args: unknown[]) => set(bound(run, args), ms),
      setInterval: (run: () => void, ms = 1, ...args: unknown[]) => set(bound(run, args), ms, Math.max(1, ms)),
      clearTimeout: clear,
      clearInterval: clear,
    });
    Object.defineProperty(performance, 'now', { value: () => this.#now, configurable: true, writable: true });
  }

  restore(): void {
    Object.assign(globalThis, REAL);
    Reflect.deleteProperty(performance, 'now');
  }

  /** Advances to the next timer and runs it, with all others of that time. */
  async next(pool: pg.Pool): Promise<void> {
    await settled(pool);
    const at = Math.min(...[...this.#timers.values()].map((timer) => timer.at));
    this.#now = Math.max(this.#now, at);
    await this.#setClock(pool);
    for (const [id, timer] of [...this.#timers]) {
      if (timer.at > this.#now || !this.#timers.has(id)) continue;
      if (timer.everyMs === undefined) this.#timers.delete(id);
      else timer.at = this.#now + timer.everyMs;
      timer.run();
    }
    await settled(pool);
  }

  async #setClock(pool: pg.Pool): Promise<void> {
    await pool.query(`select setval('virtual.clock', $1)`, [Math.round((this.#startedAt + this.elapsed) * 1_000)]);
  }
}

/** Gives a database functions of this time instead of the real ones; connections that are opened later call them. */
export async function withVirtualClock(pool: pg.Pool): Promise<void> {
  await pool.query(`
    create schema virtual;
    create sequence virtual.clock;
    create function virtual.now() returns timestamptz language sql stable
      as 'select pg_catalog.to_timestamp(last_value / 1000000.0) from virtual.clock';
    create function virtual.clock_timestamp() returns timestamptz language sql stable as 'select virtual.now()';
    do $$ begin
      execute format('alter database %I set search_path = virtual, public, pg_catalog', current_database());
    end $$`);
}

/** Waits until no statement is under way, and what continues by the last ones has begun its next one. */
async function settled(pool: pg.Pool): Promise<void> {
  for (let quiet = 0; quiet < 4; ) {
    await new Promise((resolve) => setImmediate(resolve));
    const isIdle = pool.idleCount === pool.totalCount && pool.waitingCount === 0;
    quiet = isIdle ? quiet + 1 : 0;
    if (!isIdle) await once(pool, 'release');
  }
}
