import Type from 'typebox';
import { CursorListOf, DateTime, ListOf, Nullable } from './common.ts';

/** A person the mailbox has exchanged mail with. */
export const Contact = Type.Object(
  {
    object: Type.Literal('Contact'),
    id: Type.String({ description: 'lower-cased address' }),
    account_id: Type.String(),
    display_name: Nullable(Type.String({ description: 'null: unknown' })),
    emails: Type.Array(Type.String()),
    last_contacted_at: DateTime(),
  },
  { $id: 'Contact' },
);
export type Contact = Type.Static<typeof Contact>;
export const ContactList = CursorListOf('Contacts', Contact);

/** An address usable as `from`. */
export const EmailSender = Type.Object(
  {
    object: Type.Literal('EmailSender'),
    email: Type.String(),
    display_name: Nullable(Type.String({ description: 'null: none is set' })),
    is_primary: Type.Boolean(),
    is_default: Type.Boolean(),
    verification_status: Type.Literal('verified'),
  },
  { $id: 'EmailSender' },
);
export const EmailSenderList = ListOf('EmailSenders', EmailSender);
