import Type from 'typebox';
import { AUTHENTICATION_RESULTS, Email } from '../../../contract/email.ts';
import { ApiError } from '../../../contract/errors.ts';
import { Cursor, DateTime, Limit, OneOf, readOptionalDate } from '../../../contract/common.ts';
import type { EmailFilter } from '../../../db/queries/mail/email-page.ts';

export const MetaOnly = Type.Boolean({ default: false, description: 'omit bodies and attachments' });

const address = (description: string) => Type.Optional(Type.String({ maxLength: 320, description }));
const text = (description: string) => Type.Optional(Type.String({ maxLength: 256, description }));

/** Query of the email lists; filters combine with AND. */
export const EmailQuery = Type.Object({
  q: text(
    'any part of subject, plain body, addresses and names; ignores case and accents; one or two characters match ' +
      'beginnings of words',
  ),
  from: address('address of the sender'),
  to: address('an address in to, cc or bcc'),
  any_email: Type.Optional(
    Type.String({
      maxLength: 8192,
      description: 'addresses, separated by commas; matches any of them in from, to, cc or bcc',
    }),
  ),
  subject: text('any part of the subject; ignores case and accents'),
  has_attachment: Type.Optional(Type.Boolean({ description: 'emails with or without attachments' })),
  is_unread: Type.Optional(Type.Boolean({ description: 'unread or read emails' })),
  is_starred: Type.Optional(Type.Boolean({ description: 'emails with or without the `\\Flagged` flag' })),
  is_answered: Type.Optional(Type.Boolean({ description: 'emails with or without the `\\Answered` flag' })),
  is_forwarded: Type.Optional(Type.Boolean({ description: 'emails with or without the `$Forwarded` keyword' })),
  keyword: Type.Optional(
    Type.String({
      maxLength: 2048,
      description: 'keywords, separated by commas; matches emails that have all of them; ignores case',
    }),
  ),
  dmarc: Type.Optional(OneOf(AUTHENTICATION_RESULTS, { description: 'this result of `authentication`' })),
  from_aligned: Type.Optional(
    Type.Boolean({ description: 'emails whose `authentication` says so; neither has those where it is unknown' }),
  ),
  list_id: text('List-Id of a mailing list; ignores case'),
  before: Type.Optional(DateTime('dated before this time, exclusive')),
  after: Type.Optional(DateTime('dated after this time, exclusive')),
  exclude_folder: Type.Optional(
    Type.String({ maxLength: 8192, description: 'ids of folders to exclude, separated by commas' }),
  ),
  thread_id: Type.Optional(Type.String({ maxLength: 256, description: '`thr_…`' })),
  message_id: Type.Optional(
    Type.String({
      maxLength: 998,
      description:
        'Message-ID, with or without angle brackets; of a sent email whose Message-ID the SMTP server has replaced, either one',
    }),
  ),
  meta_only: MetaOnly,
  fields: Type.Optional(
    Type.String({
      maxLength: 1024,
      description:
        'members of Email, separated by commas: the emails have only these, `object` and `id`; quicker without `body`, ' +
        '`body_plain`, `body_new`, `attachments` and `headers`',
    }),
  ),
  limit: Limit(),
  cursor: Type.Optional(Cursor),
});
export type EmailQuery = Type.Static<typeof EmailQuery>;

/** The accounts of a list over several. */
export const AccountIds = Type.Optional(
  Type.String({
    maxLength: 8192,
    description:
      'ids of accounts, `acc_…`, separated by commas; without it the list has all accounts that the key can access',
  }),
);

/** Converts the query to the filter of the database query. */
export function toFilter(query: Partial<EmailQuery>, folderId?: string): EmailFilter {
  const given = {
    q: query.q,
    from: query.from,
    to: query.to,
    anyEmail: optionalItems(query.any_email),
    subject: query.subject,
    hasAttachment: query.has_attachment,
    isUnread: query.is_unread,
    isStarred: query.is_starred,
    isAnswered: query.is_answered,
    isForwarded: query.is_forwarded,
    keywords: optionalItems(query.keyword),
    dmarc: query.dmarc,
    fromAligned: query.from_aligned,
    listId: query.list_id,
    before: readOptionalDate(query.before),
    after: readOptionalDate(query.after),
    excludeFolders: optionalItems(query.exclude_folder),
    threadId: query.thread_id,
    messageId: query.message_id,
    folderId,
  };
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
}

/** The members that a list is to have; null: all. @throws ApiError invalid_parameters */
export function fieldsOf({ fields }: EmailQuery): ReadonlySet<string> | null {
  if (fields === undefined) return null;
  const names = items(fields);
  const unknown = names.find((name) => !Object.hasOwn(Email.properties, name));
  if (unknown !== undefined) throw new ApiError('invalid_parameters', `fields: an Email has no member ${unknown}`);
  return new Set(names);
}

/** Splits a comma-separated list; omits empty items. */
export function items(list: string): string[] {
  return list
    .split(',')
    .map((item) => item.trim())
    .filter((item) => item !== '');
}

/** As `items`; undefined when the query has no such list. */
export function optionalItems(list: string | undefined): string[] | undefined {
  return list === undefined ? undefined : items(list);
}
