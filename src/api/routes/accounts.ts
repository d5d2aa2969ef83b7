import Type from 'typebox';
import {
  Account,
  ACCOUNT_STATUSES,
  AccountDeleted,
  AccountList,
  AuthIntent,
  MailboxReparse,
  MailboxSync,
  MailboxVerification,
} from '../../contract/account.ts';
import { FolderChoice, RetentionDays } from '../../contract/mailbox-config.ts';
import { Limit, Nullable, Offset, OneOf } from '../../contract/common.ts';
import { ApiError } from '../../contract/errors.ts';
import { getAccount, listAccounts, changeAccount } from '../../db/queries/accounts.ts';
import { prepareRevocation } from '../../oauth/revoke.ts';
import { connectAs, visibleAccounts } from '../http/access.ts';
import { responses, existing, Id, type Routes } from './route.ts';

const Params = Type.Object({ id: Id('account') });

const ListQuery = Type.Object({
  status: Type.Optional(OneOf(ACCOUNT_STATUSES, { description: 'accounts with this status' })),
  search: Type.Optional(Type.String({ maxLength: 256, description: 'any part of the name or id' })),
  offset: Offset,
  limit: Limit(),
});

const UpdateAccount = Type.Object({
  metadata: Type.Optional(
    Type.Record(Type.String(), Type.String(), { maxProperties: 50, description: 'replaces the entire map' }),
  ),
  authserv_id: Type.Optional(
    Nullable(
      Type.String({ pattern: '^[A-Za-z0-9][A-Za-z0-9._-]{0,254}$' }),
      'the name with which `Authentication-Results` of the provider begin, as the source of a received email shows it; null: as ' +
        'at first',
    ),
  ),
  retention_days: Type.Optional(RetentionDays),
  folders: Type.Optional(Nullable(FolderChoice, 'the folders to store; null: all')),
  watch: Type.Optional(Type.Boolean({ description: 'false: the mailbox is not followed; see `syncMailbox`' })),
});

/** Routes that connect mailboxes and manage accounts. */
export const accountRoutes: Routes = (app, { db, secrets, fetch, commands, admissions }) => {
  app.post(
    '/auth/intent',
    {
      config: { reach: 'within', idempotent: true, audit: 'account.connect' },
      schema: {
        tags: ['Accounts'],
        operationId: 'connectMailbox',
        summary: 'Connect a mailbox',
        description:
          'Verifies the IMAP and SMTP logins before it responds, and saves nothing on an error. A server that is omitted is ' +
          'discovered from the address. With `account_id`, or for a mailbox that is already connected, the call updates ' +
          'that account. A stored password is reused only for the stored host and port, with an encryption that is not ' +
          'weaker (`SSL`, `STARTTLS`, `NONE`); otherwise pass the password again. A new password is sent to the stored servers ' +
          'only if `account_id` or the stored IMAP server is given.',
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
        description: 'Returns the accounts that the API key can see.',
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
        description: 'Returns the account with its status and settings, without passwords.',
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
          'Compares everything stored with the mailbox, repairs the differences and emits their events. Every account is ' +
          'also verified once a day. Responds within 30 s, with `running` if unfinished; repeat the call to keep waiting.',
        params: Params,
        response: responses(
          'The result of the verification',
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
    '/accounts/:id/sync',
    {
      config: { reach: 'account' },
      schema: {
        tags: ['Accounts'],
        operationId: 'syncMailbox',
        summary: 'Sync a mailbox',
        description:
          'Brings the store in sync with the mailbox once, and emits the events of what has changed: for accounts with `watch` ' +
          'false, whose mailbox is not followed. A call while a sync is under way has it repeated, and waits for that. ' +
          'Responds within 30 s, with `running` if unfinished: `last_synced_at` of the account changes when the store is in sync.',
        params: Params,
        response: responses(
          'The state of the sync',
          MailboxSync,
          ...(['not_found', 'invalid_credentials', 'provider_error'] as const),
        ),
      },
    },
    async ({ params }) => {
      const { id } = existing(await getAccount(db, params.id), 'account');
      return commands.syncMailbox(id);
    },
  );

  app.post(
    '/accounts/:id/reparse',
    {
      config: { reach: 'account', audit: 'account.reparse' },
      schema: {
        tags: ['Accounts'],
        operationId: 'reparseMailbox',
        summary: 'Reparse stored mail',
        description:
          'Parses the stored source of every email of the account again, for example after an upgrade that improves the ' +
          'parser, and updates the emails that differ. Ids, threads, folders and flags do not change, and no events are ' +
          'emitted. An attachment whose bytes change gets a new id. Emails whose parsing timed out are reparsed ' +
          'automatically. Responds within 30 s, with `running` and the counts so far if unfinished; repeat the call to ' +
          'keep waiting.',
        params: Params,
        response: responses('The counts of emails by result', MailboxReparse, 'not_found'),
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
        description:
          'Replaces the metadata of the account, or sets how long its mail is stored and whose judgement of senders is believed; an ' +
          'omitted field is unchanged. `authserv_id` is for providers that write it into each received mail and remove ' +
          'foreign ones (RFC 8601 5); it applies to mail that arrives from then on. With ' +
          '`retention_days`, emails with an older `date` are deleted from the store within an hour, without an event, but not ' +
          'in the first 24 hours after they were stored. The mailbox keeps them, and drafts stay. A larger value, or null, ' +
          'does not bring them back. With `folders`, the stored folders that it excludes are deleted from the store with their ' +
          'mail, without an event, as soon as the mailbox is reached, or else within an hour; emails that another folder holds stay. ' +
          'Folders that it adds are stored with ' +
          'the mail that they hold as older mail, which is imported as far back as the account was. With `watch` false, the ' +
          'connection is closed, and the mailbox is no longer followed until `watch` is true again.',
        params: Params,
        body: UpdateAccount,
        response: responses('The account', Account, 'not_found'),
      },
    },
    async ({ params, body }) => {
      const { metadata, retention_days: retentionDays, authserv_id: authservId, folders: folderChoice, watch } = body;
      if (Object.keys(body).length === 0) {
        throw new ApiError('invalid_parameters', 'metadata, retention_days, authserv_id, folders or watch is required');
      }
      const change = {
        ...(metadata && { metadata }),
        ...(retentionDays === undefined ? {} : { retentionDays }),
        ...(authservId === undefined ? {} : { authservId }),
        ...(folderChoice === undefined ? {} : { folderChoice }),
        ...(watch === undefined ? {} : { watch }),
      };
      const changed = existing(await db.transaction((tx) => changeAccount(tx, params.id, change)), 'account');
      if (watch !== undefined) await commands.reloadAccount(params.id);
      return changed;
    },
  );

  app.delete(
    '/accounts/:id',
    {
      config: { reach: 'account', audit: 'account.remove' },
      schema: {
        tags: ['Accounts'],
        operationId: 'removeAccount',
        summary: 'Remove an account',
        description:
          'Stops the sync and deletes stored emails, attachments and credentials. The mailbox itself does not change. Tracked links in ' +
          'emails that were sent stop working.',
        params: Params,
        querystring: Type.Object({
          revoke: Type.Optional(
            Type.Boolean({
              default: false,
              description: 'also revokes the sign-in of the owner at the provider, if it is one by an OAuth app',
            }),
          ),
        }),
        response: responses('The account is removed', AccountDeleted, 'not_found', 'provider_error'),
      },
    },
    async ({ params, query }) => {
      const revocation = query.revoke ? await prepareRevocation({ db, secrets, fetch }, params.id) : undefined;
      await commands.removeAccount(params.id);
      await admissions.forget();
      const revoked = await revocation?.();
      return { object: 'AccountDeleted', id: params.id, success: true, ...(revoked === undefined ? {} : { revoked }) };
    },
  );
};
