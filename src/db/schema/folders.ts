import { sql } from 'drizzle-orm';
import {
  bigint,
  boolean,
  check,
  index,
  integer,
  jsonb,
  pgTable,
  primaryKey,
  text,
  uniqueIndex,
} from 'drizzle-orm/pg-core';
import { at } from './columns.ts';

export const folders = pgTable(
  'folders',
  {
    id: text().primaryKey(),
    accountId: text('account_id').notNull(),
    /** full path as the server names it, decoded to Unicode */
    path: text().notNull(),
    delimiter: text(),
    name: text().notNull(),
    parentId: text('parent_id'),
    role: text().notNull().default('UNKNOWN'),
    /** false: \Noselect or \NonExistent, a parent without mail */
    selectable: boolean().notNull().default(true),
    uidValidity: bigint('uid_validity', { mode: 'number' }),
    /** first UID after the baseline */
    baselineUidNext: bigint('baseline_uid_next', { mode: 'number' }),
    /** the sync cursor: UIDs below it have been ingested or are baseline */
    uidNext: bigint('uid_next', { mode: 'number' }),
    /** HIGHESTMODSEQ up to which flags and vanished messages are known; text, since it has 63 bits */
    highestModseq: text('highest_modseq'),
    /** baseline locations are known from this UID up (the scan goes downwards); 1: all */
    scannedFrom: bigint('scanned_from', { mode: 'number' }),
    /** false: locations may lack flags, which earlier versions did not store; the next pass reads all */
    flagsRead: boolean('flags_read').notNull().default(false),
    totalCount: integer('total_count').notNull().default(0),
    unreadCount: integer('unread_count').notNull().default(0),
    /** locations of the folder that have not vanished, baseline included; counted by the statements that change them */
    knownCount: integer('known_count').notNull().default(0),
    /** its messages are being removed in chunks; see src/mailbox/folders/vacate.ts */
    vacating: text().$type<Vacating>(),
    /** locations up to this UID were removed */
    vacatedTo: bigint('vacated_to', { mode: 'number' }),
    /** its UIDs are being replaced in chunks; see src/mailbox/folders/uidvalidity.ts */
    renumbering: jsonb().$type<Renumbering>(),
    /** counts changes made through this API: what was read from the server before a change is out of date */
    localRevision: bigint('local_revision', { mode: 'number' }).notNull().default(0),
    createdAt: at('created_at').notNull(),
  },
  (t) => [
    uniqueIndex('folders_path').on(t.accountId, t.path),
    check('folders_vacating', sql`vacating in ('deletion', 'noselect', 'exclusion')`),
  ],
);

/**
 * Why a folder loses all its messages: the server has deleted it, or made it a parent without messages (\Noselect), or the
 * account no longer includes it.
 */
export type Vacating = 'deletion' | 'noselect' | 'exclusion';

/** The progress of the replacement of a folder's UIDs. */
export interface Renumbering {
  /** the new UIDVALIDITY */
  uidValidity: number;
  /** of the negative numbers that locations have until then: 1, or one more than an earlier renumbering used */
  series: number;
  phase: 'freeing' | 'matching' | 'vanishing';
  /** UIDs up to this one are done in this phase */
  cursor: number;
  /** the lowest UID that is a new message */
  firstNew: number | null;
}

/**
 * The folder that is about to get a path: recorded before this API creates or renames a folder at the provider, so that a
 * pass that sees it first knows its id. Deleted when the folder's own row has the path.
 */
export const pathReservations = pgTable(
  'path_reservations',
  {
    accountId: text('account_id').notNull(),
    path: text().notNull(),
    folderId: text('folder_id').notNull(),
    createdAt: at('created_at').notNull(),
  },
  (t) => [primaryKey({ columns: [t.accountId, t.path] })],
);

/** One UID in one folder. */
export const locations = pgTable(
  'locations',
  {
    folderId: text('folder_id').notNull(),
    uid: bigint({ mode: 'number' }).notNull(),
    accountId: text('account_id').notNull(),
    /** null: a baseline message that was not ingested */
    emailId: text('email_id'),
    /** date of the email, for the folder's list, and for imports once `retention_days` has deleted it; else null for baseline */
    date: at('date'),
    seen: boolean().notNull(),
    /** further flags and keywords, see src/contract/flags.ts; null: stored by an earlier version, and not read since */
    flags: text().array(),
    /** \Deleted is set */
    deleted: boolean().notNull().default(false),
    /** when it vanished; stored until every other folder has been checked, so that a moved message is not new mail */
    vanishedAt: at('vanished_at'),
    /** when the API began to move it by copying; hidden like \Deleted; see src/mailbox/changes/move.ts */
    pendingRemovalSince: at('pending_removal_since'),
    /** see src/imap/identity.ts: the same message in another folder has the same value */
    identity: text().notNull(),
    /** the identity without INTERNALDATE, for servers that change it in a move */
    weakIdentity: text('weak_identity').notNull(),
    /** EMAILID or X-GM-MSGID, where the server has one */
    serverId: text('server_id'),
  },
  (t) => [
    primaryKey({ columns: [t.folderId, t.uid] }),
    index('locations_list').on(t.folderId, t.date, t.emailId).where(sql`email_id is not null`),
    index('locations_email').on(t.emailId),
    index('locations_identity').on(t.accountId, t.weakIdentity),
    index('locations_vanished').on(t.accountId).where(sql`vanished_at is not null`),
    index('locations_pending_removal').on(t.accountId).where(sql`pending_removal_since is not null`),
    index('locations_server_id').on(t.accountId, t.serverId).where(sql`server_id is not null`),
  ],
);
