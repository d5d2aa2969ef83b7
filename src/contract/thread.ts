import Type from 'typebox';
import { CursorListOf, DateTime, IdOf, ObjectName } from './common.ts';
import { Attendee } from './email.ts';

/** A conversation in the list of threads; drafts do not count. */
export const ThreadSummary = Type.Object(
  {
    object: ObjectName('ThreadSummary'),
    id: Type.String({ description: '`thr_…`' }),
    account_id: IdOf('account'),
    subject: Type.String({ description: 'of the last email' }),
    snippet: Type.String({ description: 'of the last email' }),
    last_date: DateTime('of the last email'),
    last_email_id: Type.String({ description: '`email_…`' }),
    participants: Type.Array(Attendee, {
      description: 'the senders of the last 20 emails, each once, the latest first',
    }),
    emails_count: Type.Integer({ description: 'emails of the thread, without drafts' }),
    unread_count: Type.Integer({ description: 'those that are unread' }),
    is_starred: Type.Boolean({ description: 'one of the emails is starred' }),
    has_attachments: Type.Boolean({ description: 'one of the emails has attachments' }),
    folders: Type.Array(Type.String({ description: '`fld_…`' }), { description: 'of the last 20 emails' }),
  },
  { $id: 'ThreadSummary', description: 'a conversation, as a list shows it' },
);
export type ThreadSummary = Type.Static<typeof ThreadSummary>;

export const ThreadList = CursorListOf('Threads', ThreadSummary);
export type ThreadList = Type.Static<typeof ThreadList>;
