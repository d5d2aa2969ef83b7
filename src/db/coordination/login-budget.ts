import { sql } from 'drizzle-orm';
import type { Db } from '../driver/client.ts';

/** Logins at a provider that need not wait, after a time without any. */
const BURST = 60;

/**
 * Takes one login at a host from the budget that all workers share. Returns how long to wait before it, in milliseconds.
 * Logins that do not wait are counted too, and delay those that do.
 */
export async function takeLogin(db: Db, host: string, perMinute: number): Promise<number> {
  const seconds = 60 / perMinute;
  const { rows } = await db.execute<{ wait: number }>(sql`
    insert into login_budgets as b (host, next_at)
    values (${host.toLowerCase()}, now() - make_interval(secs => ${(BURST - 1) * seconds}))
    on conflict (host) do update set next_at =
      greatest(b.next_at, now() - make_interval(secs => ${BURST * seconds})) + make_interval(secs => ${seconds})
    returning extract(epoch from next_at - now())::float8 as wait`);
  return Math.max(0, (rows[0]?.wait ?? 0) * 1000);
}

/** Delays logins at a host that asked for fewer, except those that do not wait. */
export async function holdLogins(db: Db, host: string, ms: number): Promise<void> {
  await db.execute(sql`
    insert into login_budgets as b (host, next_at)
    values (${host.toLowerCase()}, now() + make_interval(secs => ${ms / 1000}))
    on conflict (host) do update set next_at = greatest(b.next_at, excluded.next_at)`);
}
