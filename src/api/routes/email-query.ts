import Type from 'typebox';
import { Cursor, DateTime, Limit } from '../../contract/common.ts';
import type { EmailFilter } from '../../db/queries/email-page.ts';
import { readOptionalDate } from '../http/dates.ts';

export const MetaOnly = Type.Boolean({ default: false, description: 'leave out bodies and attachments' });

const address = (description: string) => Type.Optional(Type.String({ maxLength: 320, description }));
const text = (description: string) => Type.Optional(Type.String({ maxLength: 256, description }));

/** The query of the email lists; everything given is combined with AND (CONTRACT "Emails"). */
export const EmailQuery = Type.Object({
  q: text(
    'any part of subject, plain body, addresses and names; case and accents do not matter; one or two characters match ' +
      'beginnings of words',
  ),
  from: address('address of the sender'),
  to: address('an address in to, cc or bcc'),
  any_email: Type.Optional(
    Type.String({ maxLength: 8192, description: 'addresses, separated by commas: any of them in from, to, cc or bcc' }),
  ),
  subject: text('any part of the subject; case and accents do not matter'),
  has_attachment: Type.Optional(Type.Boolean()),
  is_unread: Type.Optional(Type.Boolean()),
  before: Type.Optional(DateTime('exclusive')),
  after: Type.Optional(DateTime('exclusive')),
  exclude_folder: Type.Optional(Type.String({ maxLength: 8192, description: 'folder ids, separated by commas' })),
  thread_id: Type.Optional(Type.String({ maxLength: 256 })),
  message_id: Type.Optional(Type.String({ maxLength: 998, description: 'with or without angle brackets' })),
  meta_only: MetaOnly,
  limit: Limit(),
  cursor: Type.Optional(Cursor),
});
export type EmailQuery = Type.Static<typeof EmailQuery>;

/** What the query narrows a list by. */
export function toFilter(query: EmailQuery, folderId?: string): EmailFilter {
  const given = {
    q: query.q,
    from: query.from,
    to: query.to,
    anyEmail: query.any_email === undefined ? undefined : items(query.any_email),
    subject: query.subject,
    hasAttachment: query.has_attachment,
    isUnread: query.is_unread,
    before: readOptionalDate(query.before),
    after: readOptionalDate(query.after),
    excludeFolders: query.exclude_folder === undefined ? undefined : items(query.exclude_folder),
    threadId: query.thread_id,
    messageId: query.message_id,
    folderId,
  };
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
}

/** The items of a list whose items are separated by commas. */
export function items(list: string): string[] {
  return list
    .split(',')
    .map((item) => item.trim())
    .filter((item) => item !== '');
}
