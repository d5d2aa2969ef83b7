import pg from 'pg';
import type { Logger } from '../logger.ts';

const RETRY_MS = 1_000;
/** An idle connection is asked for a sign of life this often: a peer that vanished is noticed no other way. */
const CHECK_MS = 15_000;

/**
 * Calls `heard` with the payload of every notice on a channel, on a connection of its own that is made again whenever it breaks. Notices
 * sent while it is away are lost: `heard` is called once, without one,
 * after each connect.
 */
export function listenTo(
  url: string,
  channel: string,
  heard: (payload: string | undefined) => void,
  logger: Logger,
): { close(): Promise<void> } {
  let closed = false;
  let client: pg.Client | undefined;
  let retry: NodeJS.Timeout | undefined;
  const check = setInterval(() => {
    client?.query('select 1').catch(() => client?.end().catch(() => {}));
  }, CHECK_MS);

  async function connect(): Promise<void> {
    const fresh = new pg.Client({
      connectionString: url,
      connectionTimeoutMillis: 10_000,
      query_timeout: 10_000,
      keepAlive: true,
    });
    let over = false;
    const again = (err?: Error) => {
      if (over) return;
      over = true;
      client = undefined;
      fresh.end().catch(() => {});
      if (closed) return;
      logger.warn({ ...(err ? { err } : {}), channel }, 'lost the connection for notices');
      retry = setTimeout(() => void connect(), RETRY_MS);
    };
    fresh.on('error', again);
    fresh.on('end', () => again());
    fresh.on('notification', ({ payload }) => heard(payload));
    try {
      await fresh.connect();
      await fresh.query(`listen ${pg.escapeIdentifier(channel)}`);
      if (closed) return void fresh.end();
      client = fresh;
      heard(undefined);
    } catch (err) {
      again(err as Error);
    }
  }
  const first = connect();

  return {
    async close() {
      closed = true;
      clearTimeout(retry);
      clearInterval(check);
      await first;
      await client?.end();
    },
  };
}
