import type { Socket } from 'node:net';
import pg from 'pg';

/** What a new connection finds. */
export interface Look {
  /** the database responds, even if with too many connections */
  isAlive: boolean;
  /** the processes of the database that work on a query; left out: unknown, or a pooler gives connections other ids */
  working?: ReadonlySet<number>;
}

const WORKING = `select pg_backend_pid() as own, pid from pg_stat_activity
  where datname = current_database() and (state is null or state not like 'idle%')`;

/** Looks at the database through a new connection. */
export async function ask(url: string, connectMs: number): Promise<Look> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: connectMs, query_timeout: connectMs });
  client.on('error', () => {});
  try {
    await client.connect();
    const { rows } = await client.query<{ own: number; pid: number }>(WORKING).catch(() => ({ rows: [] }));
    const hasOwnId = rows[0]?.own === (client as { processID?: number }).processID;
    return hasOwnId ? { isAlive: true, working: new Set(rows.map(({ pid }) => pid)) } : { isAlive: true };
  } catch (error) {
    const { code } = error as { code?: unknown };
    return { isAlive: typeof code === 'string' && /^[0-9A-Z]{5}$/.test(code) && !code.startsWith('57P') };
  } finally {
    // it may never get a response to this
    client.end().catch(() => {});
  }
}

/**
 * Whether a connection that waits for a response will get none, given looks one after another: the database is dead, or has said
 * twice that it works on nothing for that connection, which received nothing in between.
 */
export function lossOf(client: pg.Client): (found: Look) => boolean {
  let receivedThen: number | undefined;
  return ({ isAlive, working }) => {
    if (!isAlive) return true;
    const { processID } = client as { processID?: number };
    const { bytesRead } = client.connection.stream as Socket;
    const isIdle = working !== undefined && processID !== undefined && !working.has(processID);
    const isLost = isIdle && receivedThen === bytesRead;
    receivedThen = isIdle ? bytesRead : undefined;
    return isLost;
  };
}
