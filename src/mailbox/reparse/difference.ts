import { isDeepStrictEqual } from 'node:util';
import type { Attachment } from '../../contract/email.ts';
import type { Queryable } from '../../db/driver/client.ts';
import type { StoredEmailRow } from './reparses.ts';
import type { attachments, emailContents, emailSearch } from '../../db/schema/index.ts';
import { findTracking } from '../../db/queries/tracking.ts';
import { type ParsedMail, withBcc } from '../../mime/parser.ts';
import { participantsOf, threadKeysOf } from '../../mime/threads.ts';
import { untrackHtml } from '../../mime/tracking.ts';
import { isInSent, linkReports, reportsIn } from '../bounces.ts';
import type { SyncAccount } from '../context.ts';
import { buildEmail, type FetchedMail, isFromOwner, type StoredAttachment, threadFactsOf } from '../ingest/rows.ts';
import type { NewEmailRows } from '../store/emails.ts';

/** The account whose mail is parsed again; `authservId` as in SyncSettings. */
export type ReparsedAccount = Pick<SyncAccount, 'id' | 'ownAddresses'> & { authservId: string | null };

/** All rows of one stored email. */
export interface StoredRows {
  email: StoredEmailRow;
  contents: typeof emailContents.$inferSelect;
  search: typeof emailSearch.$inferSelect;
  attachments: (typeof attachments.$inferSelect)[];
}

/** The columns that differ; empty: none. */
export interface Difference {
  email: Partial<StoredEmailRow>;
  contents: Partial<typeof emailContents.$inferSelect>;
  search: Partial<typeof emailSearch.$inferSelect>;
  /** all of them, when one differs */
  attachments: NewEmailRows['attachments'] | null;
  /** see src/mailbox/contacts.ts */
  contacts: NewEmailRows['contacts'];
  /** keys of its thread, for mail that comes later */
  threadKeys: string[];
}

/**
 * The columns to change so that the rows are as if the message arrived today. The id, the thread, the flags and the origin
 * of the email stay.
 */
export async function differenceOf(
  db: Queryable,
  account: ReparsedAccount,
  stored: StoredRows,
  { parsed: read, attachments: files }: { parsed: ParsedMail; attachments: StoredAttachment[] },
): Promise<Difference> {
  const parsed = await asStored(db, stored.email, read);
  const mail = asFetched(stored.email, parsed, files);
  const facts = threadFactsOf(mail);
  const participants = participantsOf(facts, account.ownAddresses);
  const keys = threadKeysOf({ ...facts, participants });
  const isEcho =
    isFromOwner(account, parsed.from) || (stored.email.isEcho && !isFromOwner(account, stored.email.fromAttendee));
  const rows = buildEmail(
    { ...account, connectedAt: stored.email.createdAt },
    mail,
    // a missing key may mean that the server decides about threads, here and of the keys below
    { threadId: stored.email.threadId, subjectKey: stored.email.subjectKey && keys.subjectKey },
    {
      isDraft: stored.email.isDraft,
      ...(await reportsOf(db, stored.email, parsed, isEcho)),
      ...{ copyOf: null, draft: null, sentByApi: false, now: stored.email.createdAt },
      authservId: account.authservId,
    },
  );
  return {
    email: changed(stored.email, { ...readColumns(rows.email), isEcho }),
    contents: changed(stored.contents, rows.contents),
    search: changed(stored.search, rows.search),
    attachments: sameFiles(stored.attachments, rows.attachments) ? null : rows.attachments,
    contacts: rows.contacts,
    threadKeys: stored.email.subjectKey === null ? [] : keys.keys,
  };
}

/** Whether nothing is to change. */
export function isNone({ email, contents, search, attachments: files }: Difference): boolean {
  return files === null && [email, contents, search].every((columns) => Object.keys(columns).length === 0);
}

/** As ingest/sent-copies.ts does for messages that this API has sent: all recipients, and no tracking. */
async function asStored(db: Queryable, email: StoredEmailRow, parsed: ParsedMail): Promise<ParsedMail> {
  if (email.origin !== 'api') return parsed;
  const id = email.trackingId;
  const record = id && parsed.body.includes(id) ? await findTracking(db, id) : undefined;
  const all = withBcc(parsed, email.bccAttendees);
  return record && id ? { ...all, body: untrackHtml(parsed.body, id, record.links) } : all;
}

function asFetched(email: StoredEmailRow, parsed: ParsedMail, files: StoredAttachment[]): FetchedMail {
  const { id, internalDate, size, isUnread, flags, messageId, storageKey } = email;
  const unknown = { uid: 0, identity: '', weakIdentity: '', serverId: null, serverThreadId: null };
  const meta = { ...unknown, seen: !isUnread, deleted: false, flags: flags ?? [], internalDate, size };
  return { emailId: id, meta: { ...meta, messageId: messageId ?? '' }, parsed, storageKey, attachments: files };
}

/** A report stays linked to the email that it was found to be about. */
async function reportsOf(db: Queryable, email: StoredEmailRow, parsed: ParsedMail, isEcho: boolean) {
  const isOwn = isEcho || email.isDraft || (parsed.bounce !== null && (await isInSent(db, email.id)));
  const reports = reportsIn(parsed, isOwn);
  const [found = { bounce: null, complaint: null }] = await linkReports(db, email.accountId, [reports]);
  const linked = <T extends { message_id: string | null; email_id: string | null; tracking_id: string | null }>(
    now: T | null,
    before: T | null,
  ): T | null =>
    now && before && now.email_id === null && before.message_id === now.message_id
      ? { ...now, email_id: before.email_id, tracking_id: before.tracking_id }
      : now;
  return { bounce: linked(found.bounce, email.bounce), complaint: linked(found.complaint, email.complaint) };
}

/** The columns that are read from the message. */
function readColumns(row: NewEmailRows['email']): Partial<StoredEmailRow> {
  const { date, messageId, subject, fromAttendee, toAttendees, ccAttendees, bccAttendees, replyToAttendees } = row;
  const { hasAttachments, bounce, complaint, autoReply, calendar, list, authentication, isComplete, subjectKey } = row;
  return {
    ...{ date, subject, fromAttendee, toAttendees, ccAttendees, bccAttendees, replyToAttendees, hasAttachments },
    ...{ messageId: messageId ?? null, bounce: bounce ?? null, complaint: complaint ?? null },
    ...{
      autoReply: autoReply ?? null,
      calendar: calendar ?? null,
      list: list ?? null,
      authentication: authentication ?? null,
    },
    isComplete: isComplete ?? true,
    subjectKey: subjectKey ?? null,
  };
}

/** Those of these columns whose stored value differs. */
function changed<Row extends object>(stored: Row, now: Partial<Row>): Partial<Row> {
  const entries = Object.entries(now).filter(
    ([name, value]) => !isDeepStrictEqual(plain(value), plain(stored[name as keyof Row])),
  );
  return Object.fromEntries(entries) as Partial<Row>;
}

/** As JSON has it: without keys that are undefined, and dates as text. */
const plain = (value: unknown): unknown =>
  value === undefined ? null : (JSON.parse(JSON.stringify(value)) as unknown);

type FileRow = Pick<Attachment, 'id' | 'name' | 'mime' | 'size'> & { storageKey: string };

function sameFiles(stored: readonly FileRow[], now: readonly FileRow[]): boolean {
  const keyed = (rows: readonly FileRow[]) =>
    rows.map(({ id, name, mime, size, storageKey }) => JSON.stringify([id, name, mime, size, storageKey])).sort();
  return isDeepStrictEqual(keyed(stored), keyed(now));
}
