import { type SQL, sql } from 'drizzle-orm';
import type pg from 'pg';
import type { Email } from '../contract/email.ts';
import { withBytes } from './bytes-client.ts';
import { type EmailExtrasRow, type EmailHeadRow, extrasOf, headOf, shownFolders } from './email-object.ts';
import type { EmailPosition } from './email-page.ts';
import type { JsonPieces } from './json-text.ts';
import { isGoingAway } from './pending-removal.ts';
import type { Statement } from './statements.ts';

/*
 * How emails are read: Postgres gives each as pieces of its JSON text, which go into the response as they are. Only what few
 * emails have is parsed and written here: several folders, bounces and the like, and the head of mail that was stored
 * before heads were. `toEmail` of email-object.ts makes the same for events.
 */

/** The values of a row, in the order in which `emailColumns` selects them: text, but for two in Postgres' binary format. */
type Row = [
  start: Buffer,
  head: Buffer | null,
  columnsOfHead: Buffer | null,
  locations: Buffer | null,
  state: Buffer,
  columnsOfExtras: Buffer | null,
  id: Buffer,
  /** a float */
  seconds: Buffer,
  /** a boolean */
  isMore: Buffer,
  headers: Buffer | null,
  body: Value,
  bodyPlain: Value,
  bodyNew: Value,
  attachments: Value,
];
/** undefined: it is not selected, since only metadata is wanted */
type Value = Buffer | null | undefined;

const COLUMNS = `
  '{"object":"Email","id":"' || e.id || '","account_id":"' || e.account_id || '","thread_id":"' || e.thread_id || '",' as start,
  c.head,
  case when c.head is null then json_build_object('messageId', e.message_id, 'date', date_part('epoch', e.date) * 1000,
    'subject', e.subject, 'fromAttendee', e.from_attendee, 'toAttendees', e.to_attendees, 'ccAttendees', e.cc_attendees,
    'bccAttendees', e.bcc_attendees, 'replyToAttendees', e.reply_to_attendees, 'hasAttachments', e.has_attachments) end as row,
  (select string_agg(o.folder_id || case when ${isGoingAway('o')} then ' going ' else ' ' end || f.role, ',')
    from locations o join folders f on f.id = o.folder_id where o.email_id = e.id) as locations,
  ',"is_unread":' || e.is_unread::text || ',"is_complete":' || e.is_complete::text || ',"origin":"'
    || case when e.origin = 'api' then 'api' else 'external' end || '","is_echo":' || e.is_echo::text as state,
  case when num_nonnulls(e.sent_by, e.tracking_id, e.draft_id, e.bounce, e.complaint, e.auto_reply, e.calendar) > 0
    then json_build_object('sentBy', e.sent_by, 'trackingId', e.tracking_id, 'draftId', e.draft_id, 'bounce', e.bounce,
      'complaint', e.complaint, 'autoReply', e.auto_reply, 'calendar', e.calendar) end as extras,
  e.id, date_part('epoch', e.date)`;

/**
 * What to select from `emails e left join email_contents c` for `selectEmails`. `isMore` says whether there are emails
 * after those of the page; it is the same in each row.
 */
export function emailColumns(metaOnly: boolean, isMore: SQL = sql`false`): SQL {
  const contents = metaOnly ? '' : ', c.body, c.body_plain, c.body_new, c.attachments';
  return sql`${sql.raw(COLUMNS)}, ${isMore}, c.headers${sql.raw(contents)}`;
}

export interface SelectedEmail {
  email: JsonPieces<Email>;
  /** where the email is in a list */
  position(): EmailPosition;
  isMore: boolean;
}

/** Runs a statement that selects `emailColumns`. */
export async function selectEmails(pool: pg.Pool, statement: Statement): Promise<SelectedEmail[]> {
  const { rows } = await pool.query<Row>(withBytes(statement));
  return rows.map((row) => ({ email: piecesOf(row), position: () => positionOf(row), isMore: row[8][0] === 1 }));
}

function positionOf([, , , , , , id, seconds]: Row): EmailPosition {
  return { date: new Date(Math.round(seconds.readDoubleBE() * 1000)), id: id.toString('latin1') };
}

function piecesOf(row: Row): JsonPieces<Email> {
  const [start, head, columnsOfHead, locations, state, columnsOfExtras, , , , headers] = row;
  const [body, bodyPlain, bodyNew, attachments] = row.slice(10);
  const pieces = [start, head ? withoutBraces(head) : headFrom(columnsOfHead as Buffer)];
  pieces.push(FOLDERS, foldersOf(locations), state, columnsOfExtras ? extrasFrom(columnsOfExtras) : NO_EXTRAS);
  if (body) {
    pieces.push(BODY, body, BODY_PLAIN, bodyPlain as Buffer, BODY_NEW, bodyNew ?? NULL);
    pieces.push(ATTACHMENTS, attachments as Buffer, HEADERS);
  } else pieces.push(NO_CONTENTS);
  pieces.push(headers ?? NONE, END);
  return pieces as unknown as JsonPieces<Email>;
}

const FOLDERS = Buffer.from(',"folders":');
const NO_EXTRAS = Buffer.from(',"tracking_id":null');
const BODY = Buffer.from(',"body":');
const BODY_PLAIN = Buffer.from(',"body_plain":');
const BODY_NEW = Buffer.from(',"body_new":');
const ATTACHMENTS = Buffer.from(',"attachments":');
const HEADERS = Buffer.from(',"headers":');
const NO_CONTENTS = Buffer.from(',"body":"","body_plain":"","body_new":null,"attachments":[],"headers":');
const NULL = Buffer.from('null');
const NONE = Buffer.from('[]');
const END = Buffer.from('}');

const withoutBraces = (object: Buffer): Buffer => object.subarray(1, -1);

function headFrom(columns: Buffer): Buffer {
  const row = JSON.parse(columns.toString()) as Omit<EmailHeadRow, 'date'> & { date: number };
  return withoutBraces(Buffer.from(JSON.stringify(headOf({ ...row, date: new Date(Math.round(row.date)) }))));
}

function extrasFrom(columns: Buffer): Buffer {
  const extras = extrasOf(JSON.parse(columns.toString()) as EmailExtrasRow);
  return Buffer.from(`,${JSON.stringify(extras).slice(1, -1)}`);
}

/** The ids of folders from `<id> <role>`, or `<id> going <role>` for one that the email is leaving, separated by commas. */
function foldersOf(locations: Buffer | null): Buffer {
  if (!locations) return NONE;
  const text = locations.toString('latin1');
  if (!text.includes(',')) return Buffer.from(`["${text.slice(0, text.indexOf(' '))}"]`);
  const all = text.split(',').map((location) => {
    const [folderId = '', ...rest] = location.split(' ');
    return { folderId, role: rest.at(-1) ?? '', deleted: rest[0] === 'going' };
  });
  return Buffer.from(JSON.stringify(shownFolders(all)));
}
