import { sql } from 'drizzle-orm';
import { check, index, integer, jsonb, pgTable, primaryKey, text } from 'drizzle-orm/pg-core';
import { at } from './columns.ts';

/** A change of many emails, as its workflow makes it; in IMAP's names, see `BatchChange` in src/mailbox/changes/batch.ts. */
export interface StoredBatchChange {
  flags?: { add: string[]; remove: string[] };
  folderId?: string;
  trash?: boolean;
}

export const batches = pgTable(
  'batches',
  {
    id: text().primaryKey(),
    accountId: text('account_id').notNull(),
    change: jsonb().$type<StoredBatchChange>().notNull(),
    status: text().notNull().default('running'),
    total: integer().notNull(),
    createdAt: at('created_at').notNull(),
    completedAt: at('completed_at'),
  },
  (t) => [
    index('batches_account').on(t.accountId),
    index('batches_created').on(t.createdAt, t.id),
    index('batches_running').on(t.id).where(sql`status = 'running'`),
    check('batches_status', sql`status in ('running', 'completed')`),
  ],
);

/** The emails of a batch, fixed when it was accepted, with their results. */
export const batchItems = pgTable(
  'batch_items',
  {
    batchId: text('batch_id').notNull(),
    position: integer().notNull(),
    accountId: text('account_id').notNull(),
    emailId: text('email_id').notNull(),
    status: text().notNull().default('pending'),
    errorCode: text('error_code'),
    errorDetail: text('error_detail'),
  },
  (t) => [
    primaryKey({ columns: [t.batchId, t.position] }),
    index('batch_items_pending').on(t.batchId, t.position).where(sql`status = 'pending'`),
    index('batch_items_account').on(t.accountId),
    check('batch_items_status', sql`status in ('pending', 'changed', 'failed')`),
  ],
);
