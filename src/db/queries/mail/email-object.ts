import type { Email } from '../../../contract/email.ts';
import { snippetOf } from '../../../contract/snippet.ts';
import { shownFlags } from '../../../contract/flags.ts';
import type { FolderRole } from '../../../contract/folder.ts';
import type { emailContents, emails } from '../../schema/index.ts';

/** The columns of `emails` that depend on the message alone. */
type HeadColumn =
  | 'messageId'
  | 'date'
  | 'subject'
  | 'fromAttendee'
  | 'toAttendees'
  | 'ccAttendees'
  | 'bccAttendees'
  | 'replyToAttendees'
  | 'hasAttachments'
  | 'list'
  | 'authentication';

/** The columns of `emails` that an Email shows. */
export type EmailRow = Pick<
  typeof emails.$inferSelect,
  | 'id'
  | 'accountId'
  | 'threadId'
  | HeadColumn
  | 'isUnread'
  | 'flags'
  | 'draftId'
  | 'origin'
  | 'isEcho'
  | 'sentBy'
  | 'trackingId'
  | 'bounce'
  | 'complaint'
  | 'autoReply'
  | 'calendar'
  | 'isComplete'
>;

/** The columns of `email_contents` that an Email shows. */
export type EmailContentsRow = Pick<
  typeof emailContents.$inferSelect,
  'body' | 'bodyPlain' | 'bodyNew' | 'snippet' | 'headers' | 'attachments'
>;

/** A location as the folder rule needs it. */
export interface LocationOfEmail {
  folderId: string;
  role: string;
  /** \Deleted is set */
  deleted: boolean;
}

const ALL: FolderRole = 'ALL';

/**
 * Makes the contract's Email from rows, for events. Reads return it as text: see email-select.ts.
 *
 * @param contents null when bodies, headers and attachments are not needed or missing: they are then empty
 * @param folders ids from `shownFolders`
 * @param object `Draft` in events about drafts, else `Email`
 */
export function toEmail(
  row: EmailRow,
  contents: EmailContentsRow | null,
  folders: string[],
  object: Email['object'] = 'Email',
): Email {
  return {
    ...frameOf(row, folders, object),
    snippet: contents ? (contents.snippet ?? snippetOf(contents.bodyNew, contents.bodyPlain)) : '',
    body: contents?.body ?? '',
    body_plain: contents?.bodyPlain ?? '',
    body_new: contents?.bodyNew ?? null,
    attachments: contents?.attachments ?? [],
    headers: contents?.headers ?? [],
  };
}

/** An Email without its contents, which follow it. */
export type EmailFrame = Omit<Email, 'snippet' | 'body' | 'body_plain' | 'body_new' | 'attachments' | 'headers'>;

/** The part of an email that depends on its row and its folders. */
export function frameOf(row: EmailRow, folders: string[], object: Email['object'] = 'Email'): EmailFrame {
  return {
    object,
    id: row.id,
    account_id: row.accountId,
    thread_id: row.threadId,
    ...headOf(row),
    folders,
    is_unread: row.isUnread,
    ...shownFlags(row.flags),
    is_complete: row.isComplete,
    origin: row.origin === 'api' ? 'api' : 'external',
    is_echo: row.isEcho,
    ...(row.sentBy ? { sent_by: row.sentBy } : {}),
    tracking_id: row.trackingId,
    ...(row.draftId ? { draft_id: row.draftId } : {}),
    ...(row.bounce ? { bounce: row.bounce } : {}),
    ...(row.complaint ? { complaint: row.complaint } : {}),
    ...(row.autoReply ? { auto_reply: row.autoReply } : {}),
    ...(row.calendar ? { calendar: { ...NEW_OF_CALENDAR, ...row.calendar } } : {}),
  };
}

/** Members that stored invitations lack until they are parsed again. */
const NEW_OF_CALENDAR = { summary: null, location: null, status: null, time_zone: null, recurrence: [] };

/** The members that depend on the message alone. */
function headOf(row: HeadRow) {
  return {
    message_id: row.messageId ?? null,
    date: row.date.toISOString(),
    subject: row.subject,
    from_attendee: row.fromAttendee,
    to_attendees: row.toAttendees,
    cc_attendees: row.ccAttendees,
    bcc_attendees: row.bccAttendees,
    reply_to_attendees: row.replyToAttendees,
    has_attachments: row.hasAttachments,
    ...(row.list ? { list: row.list } : {}),
    authentication: row.authentication ?? null,
  };
}

type HeadRow = Pick<typeof emails.$inferInsert, HeadColumn>;

/** The members that depend on the message alone, as stored with the contents: a JSON object without its braces. */
export function headText(row: HeadRow): string {
  return JSON.stringify(headOf(row)).slice(1, -1);
}

/**
 * The folder ids of an email, sorted: those of its locations, without the ones marked with \Deleted while others remain, and
 * without the folder of all mail (Gmail's All Mail has every mail) while others remain.
 */
export function shownFolders(locations: readonly LocationOfEmail[]): string[] {
  const kept = unlessNone(locations, (location) => !location.deleted);
  const shown = unlessNone(kept, (location) => location.role !== ALL);
  return [...new Set(shown.map((location) => location.folderId))].sort();
}

function unlessNone<T>(items: readonly T[], keep: (item: T) => boolean): readonly T[] {
  const kept = items.filter(keep);
  return kept.length > 0 ? kept : items;
}
