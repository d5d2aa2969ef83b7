import type { FastifyReply } from 'fastify';
import Type from 'typebox';
import { Email, EmailList } from '../../contract/email.ts';
import { getEmail, getEmailSource, listEmails } from '../../db/emails.ts';
import { getFolder } from '../../db/folders.ts';
import { jsonArray, jsonWith } from '../../db/json-text.ts';
import { EmailQuery, MetaOnly, toFilter } from './email-query.ts';
import { AccountParams, answers, found, Id, type RouteDeps, type Routes, sendJson } from './route.ts';
import { downloadAnswers, sendStored } from './stored.ts';

export const EmailParams = Type.Object({ account_id: Id('account'), email_id: Id('email') });
const FolderParams = Type.Object({ account_id: Id('account'), folder_id: Id('folder') });

/** Reading emails (CONTRACT "Emails"); reading never sets `\Seen`. */
export const emailRoutes: Routes = (app, deps) => {
  const { db, pool, storage } = deps;

  app.get(
    '/:account_id/emails',
    {
      schema: {
        tags: ['Emails'],
        summary: 'List emails',
        description: 'All folders, TRASH and SPAM included; drafts are left out.',
        params: AccountParams,
        querystring: EmailQuery,
        response: answers('Emails, newest first', EmailList, 'not_found'),
      },
    },
    ({ params, query }, reply) => sendList(deps, reply, params.account_id, query),
  );

  app.get(
    '/:account_id/folders/:folder_id/emails',
    {
      schema: {
        tags: ['Emails'],
        summary: "List a folder's emails",
        params: FolderParams,
        querystring: EmailQuery,
        response: answers('Emails, newest first', EmailList, 'not_found'),
      },
    },
    async ({ params, query }, reply) => {
      found(await getFolder(db, params.account_id, params.folder_id), 'folder');
      return sendList(deps, reply, params.account_id, query, params.folder_id);
    },
  );

  app.get(
    '/:account_id/emails/:email_id',
    {
      schema: {
        tags: ['Emails'],
        summary: 'Get an email',
        params: EmailParams,
        querystring: Type.Object({ meta_only: MetaOnly }),
        response: answers('The email', Email, 'not_found'),
      },
    },
    async ({ params, query }, reply) => {
      const email = await getEmail(pool, params.account_id, params.email_id, { metaOnly: query.meta_only });
      return sendJson(reply, found(email, 'email'));
    },
  );

  app.get(
    '/:account_id/emails/:email_id/source',
    {
      schema: {
        tags: ['Emails'],
        summary: 'Get the raw message',
        description: 'The message as the server gave it, byte for byte. Range requests work.',
        params: EmailParams,
        response: downloadAnswers('message/rfc822', 'The message'),
      },
    },
    async (request, reply) => {
      const { account_id, email_id } = request.params;
      const key = found(await getEmailSource(pool, account_id, email_id), 'email');
      return sendStored(request, reply, storage, {
        key,
        id: email_id,
        mime: 'message/rfc822',
        name: `${email_id}.eml`,
      });
    },
  );
};

async function sendList(
  { pool, cursors }: RouteDeps,
  reply: FastifyReply,
  accountId: string,
  query: EmailQuery,
  folderId?: string,
): Promise<FastifyReply> {
  const list = { name: `Emails ${folderId ?? ''}`, accountId, query };
  const position = cursors.read(list, query.cursor);
  const filter = toFilter(query, folderId);
  const page = await listEmails(pool, accountId, filter, { metaOnly: query.meta_only, limit: query.limit, position });
  return sendJson(
    reply,
    jsonWith<EmailList, 'data'>(
      { object: 'Emails', has_more: page.next !== null, cursor: cursors.write(list, page.next) },
      { data: jsonArray(page.data) },
    ),
  );
}
