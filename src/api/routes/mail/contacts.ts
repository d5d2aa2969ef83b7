import Type from 'typebox';
import { Cursor, Limit } from '../../../contract/common.ts';
import { ContactList, EmailSenderList } from '../../../contract/contact.ts';
import { getAccount } from '../../../db/queries/accounts.ts';
import { listContacts } from '../../../db/queries/mail/contacts.ts';
import { AccountParams, responses, existing, type Routes } from '../route.ts';

const ContactQuery = Type.Object({
  search: Type.Optional(Type.String({ maxLength: 256, description: 'any part of the address or name' })),
  limit: Limit(),
  cursor: Type.Optional(Cursor),
});

/** Routes of contacts and of addresses that a mailbox can send from. */
export const contactRoutes: Routes = (app, { db, cursors }) => {
  app.get(
    '/:account_id/contacts',
    {
      schema: {
        tags: ['Contacts'],
        operationId: 'listContacts',
        summary: 'List contacts',
        description: 'Returns people found in messages, excluding the owner of the mailbox and senders of bounces.',
        params: AccountParams,
        querystring: ContactQuery,
        response: responses('Contacts, most recently contacted first', ContactList, 'not_found'),
      },
    },
    async ({ params, query }) => {
      const list = { name: 'Contacts', accountId: params.account_id, query };
      const position = cursors.read(list, query.cursor);
      const { search, limit } = query;
      const { data, next } = await listContacts(db, params.account_id, { search, limit, position });
      return { object: 'Contacts', data, has_more: next !== null, cursor: cursors.write(list, next) };
    },
  );

  app.get(
    '/:account_id/email-senders',
    {
      schema: {
        tags: ['Contacts'],
        operationId: 'listEmailSenders',
        summary: 'List email senders',
        description: 'Returns the addresses that can be used as `from`.',
        params: AccountParams,
        response: responses('The senders', EmailSenderList, 'not_found'),
      },
    },
    async ({ params }) => {
      const { user_id: email, name } = existing(await getAccount(db, params.account_id), 'account');
      const sender = {
        object: 'EmailSender',
        email,
        display_name: name === email ? null : name,
        is_primary: true,
        is_default: true,
        verification_status: 'verified',
      };
      return { object: 'EmailSenders', data: [sender], has_more: false };
    },
  );
};
