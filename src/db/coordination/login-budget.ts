import { sql } from 'drizzle-orm';
import type { Db } from '../driver/client.ts';

/** Logins that a provider gets without waiting, after a time without any. */
const BURST = 60;

/**
 * Takes one login at a host from the budget that all workers share. Returns how long to wait before it, in milliseconds.
 * One that does not wait is counted all the same: those that can wait come after it.
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

/** The provider asked for fewer logins: nobody who can wait logs in there for a while. */
export async function holdLogins(db: Db, host: string, ms: number): Promise<void> {
  await db.execute(sql`
    insert into login_budgets as b (host, next_at)
    values (${host.toLowerCase()}, now() + make_interval(secs => ${ms / 1000}))
    on conflict (host) do update set next_at = greatest(b.next_at, excluded.next_at)`);
}
