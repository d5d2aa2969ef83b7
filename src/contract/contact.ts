import Type from 'typebox';
import { CursorListOf, DateTime, IdOf, ListOf, Nullable, ObjectName } from './common.ts';

/** A person the mailbox has exchanged mail with. */
export const Contact = Type.Object(
  {
    object: ObjectName('Contact'),
    id: Type.String({ description: 'lower-cased address' }),
    account_id: IdOf('account'),
    display_name: Nullable(Type.String({ description: 'null: unknown' })),
    emails: Type.Array(Type.String(), { description: 'addresses of the person' }),
    last_contacted_at: DateTime('date of the newest email with them'),
  },
  { $id: 'Contact', description: 'a person the mailbox has exchanged mail with' },
);
export type Contact = Type.Static<typeof Contact>;
export const ContactList = CursorListOf('Contacts', Contact);

/** An address usable as `from`. */
export const EmailSender = Type.Object(
  {
    object: ObjectName('EmailSender'),
    email: Type.String({ description: 'the address' }),
    display_name: Nullable(Type.String({ description: 'null: none is set' })),
    is_primary: Type.Boolean({ description: 'whether it is the address of the mailbox' }),
    is_default: Type.Boolean({ description: 'whether it is used when a send names no `from`' }),
    verification_status: Type.Literal('verified', { description: 'always `verified`' }),
  },
  { $id: 'EmailSender', description: 'an address usable as `from`' },
);
export const EmailSenderList = ListOf('EmailSenders', EmailSender);
