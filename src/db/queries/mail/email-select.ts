import { type SQL, sql } from 'drizzle-orm';
import type pg from 'pg';
import { MAX_PAGE_BYTES } from '../../../contract/common.ts';
import type { Email } from '../../../contract/email.ts';
import { ANSWERED, FORWARDED, STARRED } from '../../../contract/flags.ts';
import { SNIPPET_SOURCE, snippetOf } from '../../../contract/snippet.ts';
import { withBytes } from '../../driver/bytes.ts';
import { type EmailRow, frameOf, type LocationOfEmail, shownFolders } from './email-object.ts';
import type { EmailPosition } from './email-page.ts';
import type { JsonPieces } from '../../driver/json-text.ts';
import { threadNow } from './merging-threads.ts';
import { isGoingAway } from '../pending-removal.ts';

/*
 * How emails are read: Postgres gives each as the pieces of its JSON text, which go into the response as they are. Rare
 * emails are parsed and serialised here: with several folders, a bounce or the like, or stored before heads existed.
 * `toEmail` of email-object.ts makes the same for events.
 *
 * The frame is put together by `||`, not by json_build_object: a list of 50 emails without bodies takes 1.7 ms of the API's
 * CPU so, and 2.8 ms where the columns are parsed and written again (40 %).
 */

/** The values of a row, in the order of `emailColumns`; texts in UTF-8. */
type Row = [
  /** the frame, without the brace that ends it; null: it is made of the next value */
  frame: Buffer | null,
  columns: Buffer | null,
  /** id, seconds since 1970, and whether another email follows in the list */
  place: Buffer,
  /** the members after the bodies, with the brace; null: no contents are stored */
  end: Buffer | null,
  /** null: not stored, or no contents are */
  snippet: Buffer | null,
  /** the beginnings of body_new and body_plain, where no snippet is stored */
  texts: Buffer | null,
  /** the others are not selected where only metadata is wanted */
  body?: Buffer | null,
  bodyPlain?: Buffer | null,
  bodyNew?: Buffer | null,
];

/** To be joined to `emails e`: the contents `c` of each email, and how many locations `l` it has. */
export const CONTENTS_AND_LOCATIONS = sql.raw(`
  left join email_contents c on c.email_id = e.id
  cross join lateral (
    select count(*) as count, min(o.folder_id) as folder_id
    from locations o join folders f on f.id = o.folder_id where o.email_id = e.id) l`);

const IS_SELDOM = `(c.head is null or l.count > 1
  or num_nonnulls(e.sent_by, e.tracking_id, e.draft_id, e.bounce, e.complaint, e.auto_reply, e.calendar) > 0)`;

const THREAD_ID = threadNow('e.thread_id');

/** `shownFlags` as text, after a comma. */
const FLAGS = `case when coalesce(cardinality(e.flags), 0) = 0
  then ',"is_starred":false,"is_answered":false,"is_forwarded":false,"keywords":[]'
  else ',"is_starred":' || ('${STARRED}' = any(e.flags))::text || ',"is_answered":' || ('${ANSWERED}' = any(e.flags))::text
    || ',"is_forwarded":' || ('${FORWARDED}' = any(e.flags))::text || ',"keywords":'
    || array_to_json(array(select flag from unnest(e.flags) flag where left(flag, 1) <> '\\'))::text end`;

/** SQL: the locations of the email under this alias, a JSON array of LocationOfEmail; null: it has none. */
export function locationsOf(alias: string): string {
  return `(select json_agg(json_build_object('folderId', f.id, 'role', f.role, 'deleted', ${isGoingAway('o')}))
    from locations o join folders f on f.id = o.folder_id where o.email_id = ${alias}.id)`;
}

const FRAME = `'{"object":"Email","id":"' || e.id || '","account_id":"' || e.account_id || '","thread_id":"' || ${THREAD_ID}
  || '",' || c.head || ',"folders":[' || coalesce('"' || l.folder_id || '"', '') || '],"is_unread":' || e.is_unread::text
  || ${FLAGS} || ',"is_complete":' || e.is_complete::text || ',"origin":"' || case when e.origin = 'api' then 'api' else 'external' end
  || '","is_echo":' || e.is_echo::text || ',"tracking_id":null'`;

const COLUMNS_OF_FRAME = `json_build_object('id', e.id, 'accountId', e.account_id, 'threadId', ${THREAD_ID},
  'messageId', e.message_id, 'milliseconds', date_part('epoch', e.date) * 1000, 'subject', e.subject,
  'fromAttendee', e.from_attendee, 'toAttendees', e.to_attendees, 'ccAttendees', e.cc_attendees,
  'bccAttendees', e.bcc_attendees, 'replyToAttendees', e.reply_to_attendees, 'hasAttachments', e.has_attachments, 'list', e.list,
  'authentication', e.authentication,
  'isUnread', e.is_unread, 'flags', e.flags, 'draftId', e.draft_id, 'origin', e.origin, 'isEcho', e.is_echo, 'sentBy', e.sent_by,
  'trackingId', e.tracking_id, 'bounce', e.bounce, 'complaint', e.complaint, 'autoReply', e.auto_reply,
  'calendar', e.calendar, 'isComplete', e.is_complete,
  'locations', ${locationsOf('e')})`;

const END = `',"attachments":' || c.attachments::text || ',"headers":' || c.headers::text || '}'`;
const END_OF_METADATA = `',"body":"","body_plain":"","body_new":null,"attachments":[],"headers":' || c.headers::text || '}'`;

/** The parts of emails that are read: `metadata` has no bodies and files, `frame` has no headers either. */
export type EmailParts = 'whole' | 'metadata' | 'frame';

const ENDS: Record<EmailParts, string> = {
  whole: `${END}`,
  metadata: END_OF_METADATA,
  frame: `case when c.email_id is not null then '}' end`,
};

/** JSON texts that are cut short, in UTF-16 code units at least as long as SNIPPET_SOURCE. */
export const TEXTS = `case when c.snippet is null and c.email_id is not null then json_build_array(
  left(c.body_new::text, ${SNIPPET_SOURCE}), left(c.body_plain::text, ${SNIPPET_SOURCE}))::text end`;

/** Those of an email, by its size where it is too small to matter: a stored text has to be decompressed to be measured. */
const BYTES = `case when e.size < 65536 then e.size else
  coalesce(octet_length(c.body::text) + octet_length(c.body_plain::text) + coalesce(octet_length(c.body_new::text), 0), 0) end`;

/**
 * Selects a page of emails for `selectEmails`, in the order of their dates: `limit` of them at most, and fewer where their texts are
 * larger than MAX_PAGE_BYTES together, but one at least.
 *
 * @param from `emails e`, one email more than the page has, with CONTENTS_AND_LOCATIONS
 */
export function selectPage(
  parts: EmailParts,
  from: SQL,
  { order, limit }: { order: 'asc' | 'desc'; limit: SQL | number },
): SQL {
  const isWhole = parts === 'whole';
  const names = `frame, columns, place, rest, snippet, texts${isWhole ? ', body, body_plain, body_new' : ''}`;
  const before = isWhole ? `sum(${BYTES}) over page - ${BYTES}` : '0';
  return sql`
    select ${sql.raw(names)} from (
      select ${emailColumns(parts, sql`lead(true, 1, false) over page`)}, row_number() over page, ${sql.raw(before)}
      from ${from}
      window page as (order by e.date ${sql.raw(order)}, e.id ${sql.raw(order)})
    ) numbered (${sql.raw(names)}, number, before)
    where number <= ${limit} and before < ${sql.raw(String(MAX_PAGE_BYTES))} order by number`;
}

/**
 * What to select from `emails e` with CONTENTS_AND_LOCATIONS for `selectEmails`. `isMore` says whether another email follows in the
 * list.
 */
export function emailColumns(parts: EmailParts, isMore: SQL = sql`false`): SQL {
  return sql`
    case when not ${sql.raw(IS_SELDOM)} then ${sql.raw(FRAME)} end,
    case when ${sql.raw(IS_SELDOM)} then ${sql.raw(COLUMNS_OF_FRAME)} end,
    e.id || ' ' || date_part('epoch', e.date) || ' ' || (${isMore})::text,
    ${sql.raw(ENDS[parts])}, c.snippet, ${sql.raw(TEXTS)}${sql.raw(parts === 'whole' ? ', c.body, c.body_plain, c.body_new' : '')}`;
}

export interface SelectedEmail {
  email: JsonPieces<Email>;
  /** the position of the email in a list, and whether another one follows it there */
  place(): EmailPosition & { isMore: boolean };
}

/** Where the page of a list that follows on these emails begins; null: none follows. */
export function nextOf(emails: readonly SelectedEmail[]): EmailPosition | null {
  const last = emails.at(-1)?.place();
  return last?.isMore ? last : null;
}

/** Runs a statement that selects `emailColumns`. */
export async function selectEmails(pool: pg.Pool, statement: pg.QueryConfig): Promise<SelectedEmail[]> {
  const { rows } = await pool.query<Row>(withBytes(statement));
  return rows.map((row) => ({ email: piecesOf(row), place: () => placeOf(row) }));
}

function placeOf([, , place]: Row): EmailPosition & { isMore: boolean } {
  const [id = '', seconds, isMore] = place.toString().split(' ');
  return { id, date: new Date(Math.round(Number(seconds) * 1000)), isMore: isMore === 'true' };
}

function piecesOf([frame, columns, , end, snippet, texts, body, bodyPlain, bodyNew]: Row): JsonPieces<Email> {
  const pieces = [
    frame ?? frameFrom(columns as Buffer),
    SNIPPET,
    snippet ?? Buffer.from(JSON.stringify(snippetFrom(texts?.toString() ?? null))),
  ];
  if (!end) pieces.push(NO_CONTENTS);
  else if (body) pieces.push(BODY, body, BODY_PLAIN, bodyPlain as Buffer, BODY_NEW, bodyNew ?? NULL, end);
  else pieces.push(end);
  return pieces as unknown as JsonPieces<Email>;
}

const SNIPPET = Buffer.from(',"snippet":');
const BODY = Buffer.from(',"body":');
const BODY_PLAIN = Buffer.from(',"body_plain":');
const BODY_NEW = Buffer.from(',"body_new":');
const NULL = Buffer.from('null');
const NO_CONTENTS = Buffer.from(',"body":"","body_plain":"","body_new":null,"attachments":[],"headers":[]}');

/** The snippet of an email with this value of TEXTS. */
export function snippetFrom(texts: string | null): string {
  const [bodyNew, bodyPlain] = texts ? (JSON.parse(texts) as (string | null)[]) : [];
  return snippetOf(bodyNew ? startOf(bodyNew) : null, startOf(bodyPlain ?? '""'));
}

/** The text of a JSON string that may be cut short, in an escape too. */
function startOf(json: string): string {
  for (let end = json.length; end > 0; end--) {
    for (const text of [json.slice(0, end), `${json.slice(0, end)}"`]) {
      try {
        return JSON.parse(text) as string;
      } catch {
        // within an escape of up to six characters
      }
    }
  }
  return '';
}

type ColumnsOfFrame = Omit<EmailRow, 'date'> & { milliseconds: number; locations: LocationOfEmail[] | null };

function frameFrom(columns: Buffer): Buffer {
  const { milliseconds, locations, ...row } = JSON.parse(columns.toString()) as ColumnsOfFrame;
  const frame = frameOf({ ...row, date: new Date(Math.round(milliseconds)) }, shownFolders(locations ?? []));
  return Buffer.from(JSON.stringify(frame).slice(0, -1));
}
