import { sql } from 'drizzle-orm';
import type { Db } from '../db/driver/client.ts';

/** The tables whose statistics plan the reads of src/db/queries/mail/email-page.ts, and the statements of src/db/driver/statement.ts. */
const TABLES = ['emails', 'email_search', 'email_contents', 'locations', 'deliveries', 'pending_deliveries'];
/** A table is analysed again when so many of its rows have changed, and at least a fifth of them. */
const CHANGED_ROWS = 500;

/**
 * Analyses tables that have changed a lot, for example by the import of a mailbox. Postgres does so, too, but up to a
 * minute later (autovacuum_naptime), and until then it sorts whole mailboxes to show fifty emails. One process at a time.
 */
export async function refreshPlannerStatistics(db: Db): Promise<void> {
  await db.transaction(async (tx) => {
    const { rows } = await tx.execute<{ name: string }>(sql`
      select relname as name from pg_stat_user_tables
      where schemaname = current_schema and relname = any(${sql.param(TABLES)}::text[])
        and n_mod_since_analyze > greatest(${CHANGED_ROWS}, n_live_tup / 5)
        and pg_try_advisory_xact_lock(${STATISTICS_LOCK})`);
    for (const { name } of rows) await tx.execute(sql`analyze ${sql.identifier(name)}`);
  });
}

/** Any number that no other user of the database takes. */
const STATISTICS_LOCK = 7_364_218_094;
