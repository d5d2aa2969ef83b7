import { sql } from 'drizzle-orm';
import { bigint, boolean, check, index, integer, jsonb, pgTable, primaryKey, text } from 'drizzle-orm/pg-core';
import type { ImportProgress } from '../../contract/runs/import.ts';
import { at } from './columns.ts';

/** Imports of older mail; src/db/coordination/import-state.ts owns the states. */
export const imports = pgTable(
  'imports',
  {
    id: text().primaryKey(),
    accountId: text('account_id').notNull(),
    /** messages with an INTERNALDATE in [since, until); null: no limit */
    since: at('since'),
    until: at('until'),
    /** `fld_…` ids and roles; null: all folders */
    folders: text().array(),
    status: text().notNull().default('queued'),
    /** why it waits or failed; empty: no reason */
    reason: text().notNull().default(''),
    nextAttemptAt: at('next_attempt_at'),
    /** emails that were new to the store */
    imported: integer().notNull().default(0),
    /** messages that had been read when it was last set to `running`, and when that was: for the rate */
    readBefore: integer('read_before').notNull().default(0),
    runningSince: at('running_since'),
    /** the last batch that was committed */
    progressedAt: at('progressed_at'),
    /** the counts when it ended, since its rows in import_folders are deleted then; null: not ended */
    counts: jsonb().$type<ImportProgress>(),
    createdAt: at('created_at').notNull(),
    startedAt: at('started_at'),
    completedAt: at('completed_at'),
  },
  (t) => [
    index('imports_account').on(t.accountId, t.createdAt, t.id),
    index('imports_unfinished').on(t.id).where(sql`status in ('queued', 'running', 'waiting')`),
    check(
      'imports_status',
      sql`status in ('queued', 'running', 'waiting', 'paused', 'completed', 'failed', 'cancelled')`,
    ),
  ],
);

/** The folders of an import; see src/mailbox/store/import-folders.ts. */
export const importFolders = pgTable(
  'import_folders',
  {
    importId: text('import_id').notNull(),
    folderId: text('folder_id').notNull(),
    accountId: text('account_id').notNull(),
    /** messages that are left to read; null: not counted yet */
    remaining: integer(),
    /** messages that were read */
    read: integer().notNull().default(0),
    done: boolean().notNull().default(false),
    /** UIDNEXT when it was done: messages that are moved to the folder later have higher UIDs */
    readBelow: bigint('read_below', { mode: 'number' }),
  },
  (t) => [primaryKey({ columns: [t.importId, t.folderId] }), index('import_folders_account').on(t.accountId)],
);
