import type { FastifyReply } from 'fastify';
import Type from 'typebox';
import { Email, EmailList } from '../../../contract/email.ts';
import { Keyword, NewKeyword } from '../../../contract/flags.ts';
import { EmailDeleted } from '../../../contract/sending.ts';
import {
  type EmailListing,
  type EmailPageOptions,
  getEmail,
  getEmailSource,
  listEmails,
  listEmailsOfAccounts,
} from '../../../db/queries/mail/emails.ts';
import { folderExists } from '../../../db/queries/folders.ts';
import { jsonWithItems } from '../../../db/driver/json-text.ts';
import type { EmailUpdate } from '../../../workflows/change-mailbox.ts';
import { askedAccounts } from '../../http/access.ts';
import type { ListIdentity } from '../../http/cursor.ts';
import { AccountIds, EmailQuery, fieldsOf, MetaOnly, optionalItems, toFilter } from './email-query.ts';
import {
  AccountParams,
  responses,
  existing,
  Id,
  requireWritable,
  type RouteDeps,
  type Routes,
  sendJson,
} from '../route.ts';
import { findFile } from '../../downloads.ts';
import { downloadResponses, DownloadQuery, sendStored } from '../stored.ts';

export const EmailParams = Type.Object({ account_id: Id('account'), email_id: Id('email') });
const FolderParams = Type.Object({ account_id: Id('account'), folder_id: Id('folder') });

/** Routes that read emails; reading never sets `\Seen`. */
export const emailRoutes: Routes = (app, deps) => {
  const { db, pool, storage } = deps;

  app.get(
    '/:account_id/emails',
    {
      schema: {
        tags: ['Emails'],
        operationId: 'listEmails',
        summary: 'List emails',
        description: 'Returns emails of all folders, including TRASH and SPAM, without drafts.',
        params: AccountParams,
        querystring: EmailQuery,
        response: responses('Emails, newest first', EmailList, 'not_found'),
      },
    },
    ({ params, query }, reply) => sendList(deps, reply, params, query),
  );

  app.get(
    '/emails',
    {
      config: { reach: 'within' },
      schema: {
        tags: ['Emails'],
        operationId: 'listEmailsOfAccounts',
        summary: 'List emails of several accounts',
        description:
          'Returns emails of several accounts in one order, with the filters of the list of one account, without drafts.',
        querystring: Type.Object({ account_ids: AccountIds, ...EmailQuery.properties }),
        response: responses('Emails, newest first', EmailList),
      },
    },
    async ({ query: { account_ids, ...query }, caller }, reply) => {
      const accountIds = await askedAccounts(caller, optionalItems(account_ids), db);
      const list = { name: 'Emails of accounts', accountId: account_ids ?? '', query };
      return sendPage(deps, reply, { list, query }, (page) =>
        listEmailsOfAccounts(pool, accountIds, toFilter(query), page),
      );
    },
  );

  app.get(
    '/:account_id/folders/:folder_id/emails',
    {
      schema: {
        tags: ['Emails'],
        operationId: 'listFolderEmails',
        summary: "List a folder's emails",
        description: 'Returns the emails of one folder, drafts included.',
        params: FolderParams,
        querystring: EmailQuery,
        response: responses('Emails, newest first', EmailList, 'not_found'),
      },
    },
    async ({ params, query }, reply) => {
      existing(await folderExists(pool, params.account_id, params.folder_id), 'folder');
      return sendList(deps, reply, params, query);
    },
  );

  app.get(
    '/:account_id/emails/:email_id',
    {
      schema: {
        tags: ['Emails'],
        operationId: 'getEmail',
        summary: 'Get an email',
        description: 'Returns the email. Reading an email does not mark it as read.',
        params: EmailParams,
        querystring: Type.Object({ meta_only: MetaOnly }),
        response: responses('The email', Email, 'not_found'),
      },
    },
    async ({ params, query }, reply) => {
      const email = await getEmail(pool, params.account_id, params.email_id, { metaOnly: query.meta_only });
      return sendJson(reply, existing(email, 'email'));
    },
  );

  app.get(
    '/:account_id/emails/:email_id/source',
    {
      schema: {
        tags: ['Emails'],
        operationId: 'getRawMessage',
        summary: 'Get the raw message',
        description:
          'Returns the message exactly as the mail server sent it. Supports range requests, and `If-None-Match` with an `ETag`.',
        params: EmailParams,
        querystring: DownloadQuery,
        response: downloadResponses('The message', 'message/rfc822'),
      },
    },
    async (request, reply) => {
      const { account_id, email_id } = request.params;
      const file = { accountId: account_id, emailId: email_id, attachmentId: null };
      const stored = existing(await findFile(pool, file), 'email');
      if (request.query.link) return reply.send(deps.links.write(file, request.caller.apiKeyId));
      return sendStored(request, reply, storage, stored);
    },
  );
};

function sendList(
  deps: RouteDeps,
  reply: FastifyReply,
  { account_id: accountId, folder_id: folderId }: { account_id: string; folder_id?: string },
  query: EmailQuery,
): Promise<FastifyReply> {
  const list = { name: `Emails ${folderId ?? ''}`, accountId, query };
  return sendPage(deps, reply, { list, query }, (page) =>
    listEmails(deps.pool, accountId, toFilter(query, folderId), page),
  );
}

async function sendPage(
  { cursors }: RouteDeps,
  reply: FastifyReply,
  { list, query }: { list: ListIdentity; query: EmailQuery },
  read: (page: EmailPageOptions) => Promise<EmailListing>,
): Promise<FastifyReply> {
  const { meta_only: metaOnly, limit, cursor } = query;
  const page = await read({ metaOnly, fields: fieldsOf(query), limit, position: cursors.read(list, cursor) });
  return sendJson(
    reply,
    jsonWithItems<EmailList, 'data'>(
      { object: 'Emails', has_more: page.next !== null, cursor: cursors.write(list, page.next) },
      'data',
      page.data,
    ),
  );
}

const FoldersIds = Type.Array(Type.String({ description: '`fld_…`' }), {
  minItems: 1,
  maxItems: 1,
  description: 'exactly one folder: in IMAP an email is in one folder',
});
const MoveEmail = Type.Object({ folders_ids: FoldersIds });

const EXAMPLES = '`Project-X`, `$label1`, …';
const NewKeywords = Type.Array(
  NewKeyword(`an IMAP keyword: ${EXAMPLES}; no comma, \`NIL\`, \`BODY[\` or \`BINARY[\``),
  {
    maxItems: 50,
    description: 'keywords to set',
  },
);
const OldKeywords = Type.Array(Keyword(`an IMAP keyword: ${EXAMPLES}`), {
  maxItems: 50,
  description: 'keywords to remove, after others are set',
});
/** A change of one email, or of each of many. */
export const UpdateEmail = Type.Object({
  is_unread: Type.Optional(Type.Boolean({ description: 'true: marks it as unread; false: as read' })),
  is_starred: Type.Optional(Type.Boolean({ description: 'sets or removes the `\\Flagged` flag' })),
  keywords: Type.Optional(
    Type.Object(
      { add: Type.Optional(NewKeywords), remove: Type.Optional(OldKeywords) },
      { description: 'changes of its IMAP keywords; others stay' },
    ),
  ),
  folders_ids: Type.Optional(FoldersIds),
});

const ERRORS = ['invalid_credentials', 'not_found', 'provider_rejected', 'provider_error'] as const;

type Params = Type.Static<typeof EmailParams>;

/** Routes that change emails; each responds after the provider has confirmed the change. */
export const emailChangeRoutes: Routes = (app, deps) => {
  const { commands } = deps;

  for (const [path, seen] of [
    ['read', true],
    ['unread', false],
  ] as const) {
    app.post(
      `/:account_id/emails/:email_id/${path}`,
      {
        schema: {
          tags: ['Emails'],
          operationId: seen ? 'markEmailAsRead' : 'markEmailAsUnread',
          summary: `Mark an email as ${path}`,
          description: `${seen ? 'Sets' : 'Removes'} the \`\\Seen\` flag and responds when the provider has confirmed it.`,
          params: EmailParams,
          response: responses('The email', Email, ...ERRORS),
        },
      },
      async ({ params }, reply) => {
        await requireEmail(deps, params);
        await commands.markEmail(params.account_id, params.email_id, seen);
        return sendJson(reply, await changedEmail(deps, params));
      },
    );
  }

  app.post(
    '/:account_id/emails/:email_id/modify',
    {
      schema: {
        tags: ['Emails'],
        operationId: 'moveEmail',
        summary: 'Move an email',
        description:
          'Moves the email to exactly one folder. If it is already there, nothing happens and no event is emitted.',
        params: EmailParams,
        body: MoveEmail,
        response: responses('The email', Email, ...ERRORS),
      },
    },
    async ({ params, body }, reply) => {
      await requireEmail(deps, params);
      await commands.moveEmail(params.account_id, params.email_id, body.folders_ids[0] as string);
      return sendJson(reply, await changedEmail(deps, params));
    },
  );

  app.patch(
    '/:account_id/emails/:email_id',
    {
      schema: {
        tags: ['Emails'],
        operationId: 'updateEmail',
        summary: 'Update an email',
        description:
          'Marks the email as read or unread, stars it, sets and removes keywords, moves it, or several of these; absent ' +
          'fields do not change. A keyword that the mail server does not keep is 422 `errors/provider_rejected`, and nothing ' +
          'is moved then.',
        params: EmailParams,
        body: UpdateEmail,
        response: responses('The email', Email, ...ERRORS),
      },
    },
    async ({ params, body }, reply) => {
      await requireEmail(deps, params);
      const update = updateOf(body);
      if (update.flags || update.folderId) await commands.updateEmail(params.account_id, params.email_id, update);
      return sendJson(reply, await changedEmail(deps, params));
    },
  );

  app.delete(
    '/:account_id/emails/:email_id',
    {
      schema: {
        tags: ['Emails'],
        operationId: 'trashEmail',
        summary: 'Trash an email',
        description:
          'Moves the email to Trash, where it remains readable. Creates the folder `Trash` if the provider has none. An email ' +
          'that is already in Trash does not change.',
        params: EmailParams,
        response: responses('The email is in Trash', EmailDeleted, ...ERRORS),
      },
    },
    async ({ params }) => {
      await requireEmail(deps, params);
      await commands.trashEmail(params.account_id, params.email_id);
      return { object: 'EmailDeleted', id: params.email_id };
    },
  );
};

/** The change in IMAP's names; empty when the body changes nothing. */
export function updateOf({
  is_unread,
  is_starred,
  keywords,
  folders_ids,
}: Type.Static<typeof UpdateEmail>): EmailUpdate {
  const add = [
    ...(is_unread === false ? ['\\Seen'] : []),
    ...(is_starred === true ? ['\\Flagged'] : []),
    ...(keywords?.add ?? []),
  ];
  const remove = [
    ...(is_unread === true ? ['\\Seen'] : []),
    ...(is_starred === false ? ['\\Flagged'] : []),
    ...(keywords?.remove ?? []),
  ];
  const [folderId] = folders_ids ?? [];
  return {
    ...(add.length + remove.length > 0 ? { flags: { add, remove } } : {}),
    ...(folderId === undefined ? {} : { folderId }),
  };
}

/** Checks, before a workflow starts, that the email exists and its account can be changed. */
async function requireEmail({ db, pool }: RouteDeps, params: Params): Promise<void> {
  const { account_id, email_id } = params;
  const [stored] = await Promise.all([getEmailSource(pool, account_id, email_id), requireWritable(db, account_id)]);
  existing(stored, 'email');
}

async function changedEmail({ pool }: RouteDeps, params: Params) {
  return existing(await getEmail(pool, params.account_id, params.email_id, { metaOnly: false }), 'email');
}
