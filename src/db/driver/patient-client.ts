import type { Socket } from 'node:net';
import pg from 'pg';
import { BytesClient } from './bytes-client.ts';

/** How long a database may take before it counts as away, ms. */
export interface Patience {
  /** to take a new connection */
  connectMs: number;
  /** to answer a query, until it is asked on another connection whether it is alive */
  queryMs: number;
}

/**
 * A class of clients for a pool. A query may take long, but only while the database is alive: after `queryMs` it is asked
 * for a new connection, and when it does not give one within `connectMs` the connection of the query is ended, which fails
 * all that wait on it ("Connection terminated"). A time limit for queries would end those that are slow, too.
 */
export function patientClient(url: string, { connectMs, queryMs }: Patience): typeof pg.Client {
  let asking: Promise<boolean> | undefined;
  const isAlive = () => (asking ??= ask(url, connectMs).finally(() => (asking = undefined)));

  return class PatientClient extends BytesClient {
    private waiting = 0;
    private timer: NodeJS.Timeout | undefined;

    constructor(config?: string | pg.ClientConfig) {
      super({ ...(typeof config === 'object' ? config : {}), connectionTimeoutMillis: connectMs });
    }

    // pg's query has many forms: with a callback as last argument, else it returns a promise
    override query(...args: unknown[]): never {
      this.begin();
      let ended = false;
      const end = () => {
        if (!ended) this.answered();
        ended = true;
      };
      const callback = args.at(-1);
      if (typeof callback === 'function') {
        args[args.length - 1] = (...results: unknown[]) => {
          end();
          (callback as (...results: unknown[]) => void)(...results);
        };
      }
      const query = super.query as (...args: unknown[]) => unknown;
      const result = query.apply(this, args);
      if (result instanceof Promise) result.then(end, end);
      else if (typeof callback !== 'function') end();
      return result as never;
    }

    private begin(): void {
      this.waiting += 1;
      this.watch();
    }

    private answered(): void {
      this.waiting -= 1;
      clearTimeout(this.timer);
      this.timer = undefined;
      if (this.waiting > 0) this.watch();
    }

    private watch(): void {
      this.timer ??= setTimeout(() => {
        void isAlive().then((alive) => {
          this.timer = undefined;
          if (this.waiting === 0) return;
          if (alive) this.watch();
          else (this as unknown as { connection: { stream: Socket } }).connection.stream.destroy();
        });
      }, queryMs).unref();
    }
  };
}

/** Whether the database answers on a new connection: that it has none left is an answer, too. */
async function ask(url: string, connectMs: number): Promise<boolean> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: connectMs });
  client.on('error', () => {});
  try {
    await client.connect();
    return true;
  } catch (error) {
    const { code } = error as { code?: unknown };
    return typeof code === 'string' && /^[0-9A-Z]{5}$/.test(code) && !code.startsWith('57P');
  } finally {
    // it may never get an answer to this
    client.end().catch(() => {});
  }
}
