import { createHash } from 'node:crypto';
import pg from 'pg';
import { readBytes } from './bytes.ts';
import { ask, lossOf } from './lost-connection.ts';
import { nameIn } from './statement.ts';

/** How long a database may take before it counts as down, ms. */
export interface Patience {
  /** to accept a new connection */
  connectMs: number;
  /** to respond to a query, until another connection checks whether it is alive, and works on the query */
  queryMs: number;
}

type AnyQuery = (...args: unknown[]) => unknown;

/**
 * The class of clients for a pool to `url`. Connections keep statements that have a name (statement.ts), and rows of
 * statements `withBytes` stay bytes (bytes.ts).
 *
 * With `patience` a query may take long, but only while the database is alive: after `queryMs` a new connection is
 * opened, and if that takes longer than `connectMs`, the connection of the query is closed, which fails all that wait on
 * it. So it is when the database twice says that it works on nothing for that connection, and nothing arrived in between: the
 * network has lost it. pg's `query_timeout` would also fail slow queries.
 */
export function clientClass(url: string, patience?: Patience): typeof pg.Client {
  const look = patience ? shared(() => ask(url, patience.connectMs)) : undefined;

  return class ProductClient extends pg.Client {
    private unanswered = 0;
    private timer: NodeJS.Timeout | undefined;
    private readonly isLost = lossOf(this);

    constructor(config?: string | pg.ClientConfig) {
      const given = typeof config === 'object' ? config : {};
      super(patience ? { ...given, connectionTimeoutMillis: patience.connectMs } : given);
      readBytes(this);
    }

    // with a callback, or it returns a promise
    override connect(...args: unknown[]): never {
      const [callback] = args;
      const connect = super.connect as (...args: unknown[]) => never;
      return typeof callback === 'function' ? connect.call(this, calledOnce(callback)) : connect.call(this);
    }

    // pg's query has many forms: drizzle gives an object, and maybe values; the pool a callback as the last argument
    override query(...args: unknown[]): never {
      const [query, ...others] = args;
      const given = [withName(query), ...others];
      const send = super.query as AnyQuery;
      return (patience ? this.watched(send, given) : send.apply(this, given)) as never;
    }

    private watched(send: AnyQuery, args: unknown[]): unknown {
      this.unanswered += 1;
      this.watch();
      let isAnswered = false;
      const answered = () => {
        if (!isAnswered) this.answered();
        isAnswered = true;
      };
      const callback = args.at(-1);
      if (typeof callback === 'function') {
        args[args.length - 1] = (...results: unknown[]) => {
          answered();
          (callback as (...results: unknown[]) => void)(...results);
        };
      }
      const result = send.apply(this, args);
      if (result instanceof Promise) result.then(answered, answered);
      else if (typeof callback !== 'function') answered();
      return result;
    }

    private answered(): void {
      this.unanswered -= 1;
      clearTimeout(this.timer);
      this.timer = undefined;
      if (this.unanswered > 0) this.watch();
    }

    private watch(): void {
      const timer = (this.timer ??= setTimeout(() => {
        void look?.().then((found) => {
          // answered since
          if (this.timer !== timer) return;
          this.timer = undefined;
          if (this.isLost(found)) this.connection.stream.destroy();
          else this.watch();
        });
      }, patience?.queryMs).unref());
    }
  };
}

const names = new Map<string, string>();

/** A query whose text has a name is known to the connection by that name and a digest of the text. */
function withName(query: unknown): unknown {
  if (typeof query !== 'object' || query === null || !('text' in query)) return query;
  const text = String(query.text);
  const mark = nameIn(text);
  if (mark === undefined) return query;
  let name = names.get(text);
  if (name === undefined) {
    name = `${mark.slice(0, 40)}_${createHash('sha256').update(text).digest('base64url').slice(0, 16)}`;
    names.set(text, name);
  }
  return { ...query, name };
}

/**
 * A function that releases `callback` when it is called. pg's listeners refer to the callback of `connect` as long as the
 * connection is open, and that of a pool refers to the result of the query which made it connect: rows with mail in them.
 */
function calledOnce(callback: unknown): (...results: unknown[]) => void {
  let waiting = callback as ((...results: unknown[]) => void) | undefined;
  return (...results) => {
    const call = waiting;
    waiting = undefined;
    call?.(...results);
  };
}

/** Concurrent callers share one run of `work`. */
function shared<T>(work: () => Promise<T>): () => Promise<T> {
  let running: Promise<T> | undefined;
  return () => (running ??= work().finally(() => (running = undefined)));
}
