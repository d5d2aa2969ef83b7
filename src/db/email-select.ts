import { type SQL, sql } from 'drizzle-orm';
import { PgDialect } from 'drizzle-orm/pg-core';
import pg from 'pg';
import type { Email } from '../contract/email.ts';
import {
  type EmailContentsJson,
  type EmailRow,
  type LocationOfEmail,
  shownFolders,
  toEmailJson,
} from './email-object.ts';
import type { JsonOf } from './json-text.ts';
import { isGoingAway } from './pending-removal.ts';

/*
 * How emails are read: one statement gives the columns of `emails`, the locations of each email, and its contents as JSON
 * text that goes into the response as it is. Drizzle's row mapping takes three times as long for the same list.
 */

/** An email as these statements give it; contents are null when the email has none. */
type SelectedEmail = EmailRow & { locations: LocationOfEmail[] | null } & {
  [Column in keyof EmailContentsJson]: EmailContentsJson[Column] | null;
};

const COLUMNS = sql.raw(`
  e.id, e.account_id as "accountId", e.thread_id as "threadId", e.message_id as "messageId", e.date, e.subject,
  e.from_attendee as "fromAttendee", e.to_attendees as "toAttendees", e.cc_attendees as "ccAttendees",
  e.bcc_attendees as "bccAttendees", e.reply_to_attendees as "replyToAttendees",
  e.has_attachments as "hasAttachments", e.is_unread as "isUnread", e.draft_id as "draftId", e.origin,
  e.is_echo as "isEcho", e.sent_by as "sentBy", e.tracking_id as "trackingId", e.bounce,
  e.complaint, e.auto_reply as "autoReply", e.calendar, e.is_complete as "isComplete",
  (select jsonb_agg(jsonb_build_object('folderId', f.id, 'role', f.role, 'deleted', ${isGoingAway('o')}))
    from locations o join folders f on f.id = o.folder_id where o.email_id = e.id) as locations`);

const CONTENTS = sql.raw(`c.body, c.body_plain as "bodyPlain", c.body_new as "bodyNew", c.headers, c.attachments`);
const CONTENTS_META_ONLY = sql.raw(
  `null as body, null as "bodyPlain", null as "bodyNew", c.headers, null as attachments`,
);

/** The columns to select from `emails e left join email_contents c` for an Email. */
export function emailColumns(metaOnly: boolean): SQL {
  return sql`${COLUMNS}, ${metaOnly ? CONTENTS_META_ONLY : CONTENTS}`;
}

/** Runs a statement that selects `emailColumns`; each email as JSON, with whatever else the row holds. */
export async function selectEmails<Extra extends object>(
  pool: pg.Pool,
  statement: SQL,
  options: { prepared: boolean },
): Promise<{ email: JsonOf<Email>; row: EmailRow & Extra }[]> {
  const { rows } = await pool.query<SelectedEmail & Extra>({ ...toQuery(statement, options), types: JSON_AS_TEXT });
  return rows.map((row) => ({ email: toJson(row), row }));
}

function toJson(row: SelectedEmail): JsonOf<Email> {
  const contents = {
    body: row.body ?? EMPTY_TEXT,
    bodyPlain: row.bodyPlain ?? EMPTY_TEXT,
    bodyNew: row.bodyNew ?? NULL,
    attachments: row.attachments ?? NONE,
    headers: row.headers ?? NONE,
  };
  return toEmailJson(row, contents, shownFolders(row.locations ?? []));
}

const EMPTY_TEXT = '""' as JsonOf<string>;
const NONE = '[]' as JsonOf<never[]>;
const NULL = 'null' as JsonOf<null>;

const JSON_OID = 114;
const JSON_AS_TEXT: pg.CustomTypesConfig = {
  getTypeParser: (oid, format) =>
    (oid as number) === JSON_OID ? (text: string) => text : (pg.types.getTypeParser(oid, format) as never),
};

const dialect = new PgDialect();
const names = new Map<string, string>();

/**
 * A statement in the form that pg expects. Prepared ones are planned once per connection, for any values: only for
 * statements whose best plan is always the same, and of which there are few.
 */
export function toQuery(
  statement: SQL,
  options: { prepared: boolean },
): { text: string; values: unknown[]; name?: string } {
  const { sql: text, params } = dialect.sqlToQuery(statement);
  if (!options.prepared) return { text, values: params };
  let name = names.get(text);
  if (name === undefined) names.set(text, (name = `read_${names.size}`));
  return { text, values: params, name };
}
