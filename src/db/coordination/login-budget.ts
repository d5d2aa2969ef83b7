import { sql } from 'drizzle-orm';
import type { Db } from '../driver/client.ts';

/** Logins at a provider that need not wait, after a time without any. */
const BURST = 60;
/** How much slower logins become each time a host asks for fewer, and at most. */
const SLOWER = 2;
const SLOWEST = 32;
/** By each login they become faster again: twice as fast after 139 of them. */
const FASTER = 0.995;

/**
 * Takes one login at a host from the budget that all workers share. Returns how long to wait before it, in milliseconds.
 * Logins that do not wait are counted too, and delay those that do. `perMinute`: as long as the host does not ask for fewer.
 */
export async function takeLogin(db: Db, host: string, perMinute: number): Promise<number> {
  const seconds = 60 / perMinute;
  const { rows } = await db.execute<{ wait: number }>(sql`
    insert into login_budgets as b (host, next_at)
    values (${host.toLowerCase()}, now() - make_interval(secs => ${(BURST - 1) * seconds}))
    on conflict (host) do update set
      next_at = greatest(b.next_at, now() - make_interval(secs => ${BURST * seconds})) + make_interval(secs => ${seconds} * b.slowness),
      slowness = greatest(1, b.slowness * ${FASTER})
    returning extract(epoch from next_at - now())::float8 as wait`);
  return Math.max(0, (rows[0]?.wait ?? 0) * 1000);
}

/** Delays logins at a host that asked for fewer, except those that do not wait; those after it are twice as far apart. */
export async function holdLogins(db: Db, host: string, ms: number): Promise<void> {
  await db.execute(sql`
    insert into login_budgets as b (host, next_at, slowness)
    values (${host.toLowerCase()}, now() + make_interval(secs => ${ms / 1000}), ${SLOWER})
    on conflict (host) do update set
      next_at = greatest(b.next_at, excluded.next_at),
      -- logins that were under way together are refused together
      slowness = case when b.next_at < now() + make_interval(secs => ${ms / 2000})
        then least(b.slowness * ${SLOWER}, ${SLOWEST}) else b.slowness end`);
}
