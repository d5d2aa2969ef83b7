import { doublePrecision, index, integer, pgTable, text } from 'drizzle-orm/pg-core';
import { at } from './columns.ts';

/** Values of the whole installation, by name. */
export const installation = pgTable('installation', { name: text().primaryKey(), value: text().notNull() });

/** Live worker processes; see src/db/coordination/workers.ts. */
export const workers = pgTable('workers', {
  id: text().primaryKey(),
  seenAt: at('seen_at').notNull(),
  startedAt: at('started_at').notNull().defaultNow(),
  /** mailboxes that it watches */
  watches: integer().notNull().default(0),
});

/** Login budgets: one row for each host, shared by all workers. See src/db/coordination/login-budget.ts. */
export const loginBudgets = pgTable('login_budgets', {
  host: text().primaryKey(),
  /** when the next login is due */
  nextAt: at('next_at').notNull(),
  /** how many times longer than usual logins are apart, since the host asked for fewer; 1: as usual */
  slowness: doublePrecision().notNull().default(1),
});

/** Workflow runs whose work is stored: repeating one does nothing. See src/db/coordination/finished-runs.ts. */
export const finishedRuns = pgTable(
  'finished_runs',
  {
    runId: text('run_id').primaryKey(),
    finishedAt: at('finished_at').notNull().defaultNow(),
  },
  (t) => [index('finished_runs_at').on(t.finishedAt)],
);
