import pg from 'pg';
import type { Logger } from '../../runtime/logger.ts';

const RETRY_MS = 1_000;
/** Between two queries that check the idle connection: a vanished peer is detected no other way. */
const CHECK_MS = 15_000;

/** A listener for the notifications of a channel. */
export type Notified = (payload: string | undefined) => void;

/**
 * Calls the listener of a channel with the payload of every notification on it, over a separate connection that is
 * reopened whenever it breaks. Notifications in between are lost: after each connect all listeners are called once
 * without a payload.
 */
export function listenTo(
  url: string,
  channels: Readonly<Record<string, Notified>>,
  logger: Logger,
): { close(): Promise<void> } {
  const names = Object.keys(channels);
  let closed = false;
  let client: pg.Client | undefined;
  let retry: NodeJS.Timeout | undefined;
  const check = setInterval(() => {
    client?.query('select 1').catch(() => client?.end().catch(() => {}));
  }, CHECK_MS);

  async function connect(): Promise<void> {
    const opening = newClient(url);
    let broken = false;
    const reconnect = (err?: Error) => {
      if (broken) return;
      broken = true;
      client = undefined;
      opening.end().catch(() => {});
      if (closed) return;
      logger.warn({ ...(err ? { err } : {}), channels: names }, 'lost the connection for notifications');
      retry = setTimeout(() => void connect(), RETRY_MS);
    };
    opening.on('error', reconnect);
    opening.on('end', () => reconnect());
    opening.on('notification', ({ channel, payload }) => channels[channel]?.(payload));
    try {
      await opening.connect();
      await opening.query(names.map((name) => `listen ${pg.escapeIdentifier(name)}`).join('; '));
      if (closed) return void opening.end();
      client = opening;
      for (const notified of Object.values(channels)) notified(undefined);
    } catch (err) {
      reconnect(err as Error);
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

function newClient(url: string): pg.Client {
  return new pg.Client({
    connectionString: url,
    connectionTimeoutMillis: 10_000,
    query_timeout: 10_000,
    keepAlive: true,
  });
}
