import { sql } from 'drizzle-orm';
import { bigint, check, index, integer, jsonb, pgTable, text, uniqueIndex } from 'drizzle-orm/pg-core';
import type { AlertMessage } from '../../contract/overview.ts';
import { at } from './columns.ts';

/** Problems that operators get messages about, open and over. See src/alerts/alert-state.ts. */
export const alerts = pgTable(
  'alerts',
  {
    id: bigint({ mode: 'number' }).primaryKey().generatedAlwaysAsIdentity(),
    /** what it is about: one row is open for each at most. `login:acc_…`, `mailbox:acc_…`, `server:HOST`, `endpoint:we_…`, `backlog` */
    problem: text().notNull(),
    kind: text().notNull(),
    /** `acc_…` or `we_…`; null: it is about no single object */
    objectId: text('object_id'),
    name: text().notNull(),
    detail: text().notNull(),
    /** mail server; empty: it is about no mailbox */
    server: text().notNull(),
    /** mailboxes, or deliveries of a backlog */
    count: integer().notNull(),
    since: at('since').notNull(),
    openedAt: at('opened_at').notNull(),
    closedAt: at('closed_at'),
    /** id of the message that said that it began, and of the one that said that it is over; null: none yet */
    openedIn: text('opened_in'),
    closedIn: text('closed_in'),
  },
  (t) => [
    uniqueIndex('alerts_open').on(t.problem).where(sql`closed_at is null`),
    index('alerts_closed').on(t.closedAt).where(sql`closed_at is not null`),
  ],
);

/** Messages to operators, one for each channel. */
export const alertMessages = pgTable(
  'alert_messages',
  {
    /** `alr_…` */
    id: text().primaryKey(),
    channel: text().notNull(),
    body: jsonb().$type<AlertMessage>().notNull(),
    createdAt: at('created_at').notNull(),
    /** no worker sends it before; while one does, when another may */
    dueAt: at('due_at').notNull(),
    attempts: integer().notNull().default(0),
    sentAt: at('sent_at'),
    /** when it was given up */
    failedAt: at('failed_at'),
    /** of the last attempt */
    error: text(),
  },
  (t) => [
    index('alert_messages_created').on(t.createdAt),
    check('alert_messages_channel', sql`channel in ('url', 'email')`),
  ],
);
