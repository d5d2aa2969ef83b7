import Type from 'typebox';
import {
  Account,
  ACCOUNT_STATUSES,
  AccountDeleted,
  AccountList,
  AuthIntent,
  MailboxReparse,
  MailboxVerification,
} from '../../contract/account.ts';
import { Limit, Offset, OneOf } from '../../contract/common.ts';
import { getAccount, listAccounts, replaceMetadata } from '../../db/queries/accounts.ts';
import { connectAs, visibleAccounts } from '../http/access.ts';
import { responses, existing, Id, type Routes } from './route.ts';

const Params = Type.Object({ id: Id('account') });

const ListQuery = Type.Object({
  status: Type.Optional(OneOf(ACCOUNT_STATUSES)),
  search: Type.Optional(Type.String({ maxLength: 256, description: 'any part of name or id' })),
  offset: Offset,
  limit: Limit(),
});

const UpdateAccount = Type.Object({
  metadata: Type.Record(Type.String(), Type.String(), {
    maxProperties: 50,
    description: 'takes the place of the whole map',
  }),
});

/** Connecting mailboxes, and the accounts that come of it (CONTRACT "Connect", "Accounts"). */
export const accountRoutes: Routes = (app, { db, commands, admissions }) => {
  app.post(
    '/auth/intent',
    {
      config: { reach: 'within', idempotent: true, audit: 'account.connect' },
      schema: {
        tags: ['Accounts'],
        operationId: 'connectMailbox',
        summary: 'Connect a mailbox',
        description:
          'IMAP and SMTP logins are tried before the answer; on any error nothing is saved. A side that is left out is ' +
          'found from the address. With `account_id`, or for a mailbox that is connected already, that account is updated. ' +
          'A stored password is used only for the stored host, port and an encryption that is no weaker (`SSL`, `STARTTLS`, ' +
          '`NONE`): any other needs it again.',
        body: AuthIntent,
        response: responses(
          'The account, running',
          Account,
          ...(['invalid_credentials', 'not_found', 'already_exists', 'provider_rejected', 'provider_error'] as const),
        ),
      },
    },
    async ({ body, caller }) => {
      const id = await connectAs(caller, body, (intent) => commands.connectMailbox(intent));
      return existing(await getAccount(db, id), 'account');
    },
  );

  app.get(
    '/accounts',
    {
      config: { reach: 'within' },
      schema: {
        tags: ['Accounts'],
        operationId: 'listAccounts',
        summary: 'List accounts',
        querystring: ListQuery,
        response: responses('Accounts, oldest first', AccountList),
      },
    },
    async ({ query, caller }) => {
      const { data, hasMore } = await listAccounts(db, { ...query, ids: visibleAccounts(caller, undefined) });
      return { object: 'Accounts', data, has_more: hasMore };
    },
  );

  app.get(
    '/accounts/:id',
    {
      config: { reach: 'account' },
      schema: {
        tags: ['Accounts'],
        operationId: 'getAccount',
        summary: 'Get an account',
        params: Params,
        response: responses('The account', Account, 'not_found'),
      },
    },
    async ({ params }) => existing(await getAccount(db, params.id), 'account'),
  );

  app.post(
    '/accounts/:id/verify',
    {
      config: { reach: 'account' },
      schema: {
        tags: ['Accounts'],
        operationId: 'verifyMailbox',
        summary: 'Verify a mailbox',
        description:
          'Compares all that is stored with the mailbox and repairs what differs, with its events. Every account is verified ' +
          'once a day by itself. The answer comes after half a minute at the latest: `running` then; the same call again ' +
          'waits for the same verification.',
        params: Params,
        response: responses(
          'What was found',
          MailboxVerification,
          ...(['not_found', 'invalid_credentials', 'provider_error'] as const),
        ),
      },
    },
    async ({ params }) => {
      const { id } = existing(await getAccount(db, params.id), 'account');
      return commands.verifyMailbox(id);
    },
  );

  app.post(
    '/accounts/:id/reparse',
    {
      config: { reach: 'account', audit: 'account.reparse' },
      schema: {
        tags: ['Accounts'],
        operationId: 'reparseMailbox',
        summary: 'Parse stored mail again',
        description:
          'Reads the stored source of every email of the account again, as after an upgrade that reads mail better, and ' +
          'changes what differs: ids, threads, folders and flags stay, and no event says so. An attachment whose bytes are ' +
          'read otherwise gets a new id. Emails whose parsing was cut short are parsed again by themselves. The answer comes after half a minute at the latest: `running` then, with ' +
          'the counts so far; the same call again waits for the same run.',
        params: Params,
        response: responses('What became of the emails', MailboxReparse, 'not_found'),
      },
    },
    async ({ params }) => {
      const { id } = existing(await getAccount(db, params.id), 'account');
      return commands.reparseMailbox(id);
    },
  );

  app.patch(
    '/accounts/:id',
    {
      config: { reach: 'account', audit: 'account.update' },
      schema: {
        tags: ['Accounts'],
        operationId: 'updateAccount',
        summary: 'Update an account',
        params: Params,
        body: UpdateAccount,
        response: responses('The account', Account, 'not_found'),
      },
    },
    async ({ params, body }) => existing(await replaceMetadata(db, params.id, body.metadata), 'account'),
  );

  app.delete(
    '/accounts/:id',
    {
      config: { reach: 'account', audit: 'account.remove' },
      schema: {
        tags: ['Accounts'],
        operationId: 'removeAccount',
        summary: 'Remove an account',
        description: 'The sync stops; stored mail, attachments and credentials are deleted.',
        params: Params,
        response: responses('It is removed', AccountDeleted, 'not_found', 'provider_error'),
      },
    },
    async ({ params }) => {
      await commands.removeAccount(params.id);
      await admissions.forget();
      return { object: 'AccountDeleted', id: params.id, success: true };
    },
  );
};
