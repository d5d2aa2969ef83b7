import type { FastifyReply } from 'fastify';
import Type from 'typebox';
import { Cursor, DateTime, Limit, MAX_LIMIT, readOptionalDate } from '../../../contract/common.ts';
import { Thread } from '../../../contract/email.ts';
import { ThreadList } from '../../../contract/thread.ts';
import { jsonWithItems } from '../../../db/driver/json-text.ts';
import {
  listThreads,
  listThreadsOfAccounts,
  type ThreadFilter,
  type ThreadListing,
  type ThreadPage,
} from '../../../db/queries/mail/thread-list.ts';
import { getThread } from '../../../db/queries/mail/threads.ts';
import { askedAccounts } from '../../http/access.ts';
import type { ListIdentity } from '../../http/cursor.ts';
import { AccountIds, EmailQuery, MetaOnly, optionalItems, toFilter } from './email-query.ts';
import { EmailParams } from './emails.ts';
import { AccountParams, responses, existing, Id, type RouteDeps, type Routes, sendJson } from '../route.ts';

const ThreadQuery = Type.Object({ meta_only: MetaOnly, limit: Limit(MAX_LIMIT), cursor: Type.Optional(Cursor) });

const { q, from, to, any_email, subject, is_answered, is_forwarded, keyword, exclude_folder, message_id } =
  EmailQuery.properties;
const ThreadsQuery = Type.Object({
  ...{ q, from, to, any_email, subject, is_answered, is_forwarded, keyword, exclude_folder, message_id },
  folder_id: Type.Optional(Type.String({ maxLength: 256, description: '`fld_…`: emails in this folder' })),
  is_unread: Type.Optional(Type.Boolean({ description: 'threads with or without an unread email' })),
  is_starred: Type.Optional(Type.Boolean({ description: 'threads with or without a starred email' })),
  has_attachment: Type.Optional(Type.Boolean({ description: 'threads with or without attachments' })),
  before: Type.Optional(DateTime('whose last email is dated before this time, exclusive')),
  after: Type.Optional(DateTime('whose last email is dated after this time, exclusive')),
  limit: Limit(),
  cursor: Type.Optional(Cursor),
});
type ThreadsQuery = Type.Static<typeof ThreadsQuery>;

/** Routes that list threads and read one, by its id or by the id of one of its emails. */
export const threadRoutes: Routes = (app, deps) => {
  const schema = {
    tags: ['Emails'],
    description:
      'Returns the emails of the thread, oldest first, including sent copies and without drafts. `cursor` is present only if more follow.',
    querystring: ThreadQuery,
    response: responses('The thread', Thread, 'not_found'),
  };

  app.get(
    '/:account_id/threads',
    {
      schema: {
        tags: ['Emails'],
        operationId: 'listThreads',
        summary: 'List threads',
        description:
          'Returns the conversations of the mailbox, without drafts: those with an email that passes `q`, `from`, `to`, ' +
          '`any_email`, `subject`, `is_answered`, `is_forwarded`, `keyword`, `folder_id`, `exclude_folder` and `message_id`, ' +
          'all of which are about one email; the other filters are about the conversation.',
        params: AccountParams,
        querystring: ThreadsQuery,
        response: responses('Threads, the one with the latest email first', ThreadList, 'not_found'),
      },
    },
    ({ params: { account_id: accountId }, query }) =>
      listOf(deps, { name: 'Threads', accountId, query }, query, (page) => listThreads(deps.pool, accountId, page)),
  );

  app.get(
    '/threads',
    {
      config: { reach: 'within' },
      schema: {
        tags: ['Emails'],
        operationId: 'listThreadsOfAccounts',
        summary: 'List threads of several accounts',
        description:
          'Returns the conversations of several mailboxes in one order, with the filters of the list of one account, ' +
          'without drafts.',
        querystring: Type.Object({ account_ids: AccountIds, ...ThreadsQuery.properties }),
        response: responses('Threads, the one with the latest email first', ThreadList),
      },
    },
    async ({ query: { account_ids, ...query }, caller }) => {
      const accountIds = await askedAccounts(caller, optionalItems(account_ids), deps.db);
      return listOf(deps, { name: 'Threads of accounts', accountId: account_ids ?? '', query }, query, (page) =>
        listThreadsOfAccounts(deps.pool, accountIds, page),
      );
    },
  );

  app.get(
    '/:account_id/threads/:thread_id',
    {
      schema: {
        ...schema,
        operationId: 'getThread',
        summary: 'Get a thread',
        params: Type.Object({ account_id: Id('account'), thread_id: Id('thread') }),
      },
    },
    ({ params, query }, reply) => sendThread(deps, reply, params, query),
  );

  app.get(
    '/:account_id/emails/:email_id/thread',
    { schema: { ...schema, operationId: 'getEmailThread', summary: "Get an email's thread", params: EmailParams } },
    ({ params, query }, reply) => sendThread(deps, reply, params, query),
  );
};

async function listOf(
  { cursors }: RouteDeps,
  list: ListIdentity,
  query: ThreadsQuery,
  read: (page: ThreadPage) => Promise<ThreadListing>,
): Promise<ThreadList> {
  const position = cursors.read(list, query.cursor);
  const { data, next } = await read({ filter: filterOf(query), limit: query.limit, position });
  return { object: 'Threads', data, has_more: next !== null, cursor: cursors.write(list, next) };
}

function filterOf({
  is_unread,
  is_starred,
  has_attachment,
  before,
  after,
  folder_id,
  ...ofEmails
}: ThreadsQuery): ThreadFilter {
  const emails = toFilter(ofEmails, folder_id);
  return {
    ...{ isUnread: is_unread, isStarred: is_starred, hasAttachment: has_attachment },
    ...{ before: readOptionalDate(before), after: readOptionalDate(after) },
    ...(Object.keys(emails).length > 0 ? { emails } : {}),
  };
}

async function sendThread(
  { pool, cursors }: RouteDeps,
  reply: FastifyReply,
  params: { account_id: string } & ({ thread_id: string } | { email_id: string }),
  query: Type.Static<typeof ThreadQuery>,
): Promise<FastifyReply> {
  const accountId = params.account_id;
  const of = 'thread_id' in params ? { threadId: params.thread_id } : { emailId: params.email_id };
  const list = { name: `Thread ${'threadId' in of ? of.threadId : of.emailId}`, accountId, query };
  const position = cursors.read(list, query.cursor);
  const page = { metaOnly: query.meta_only, limit: query.limit, position };
  const thread = existing(await getThread(pool, accountId, of, page), 'thread');
  const cursor = cursors.write(list, thread.next);
  return sendJson(
    reply,
    jsonWithItems<Thread, 'data'>(
      { object: 'Thread', id: thread.id, has_more: cursor !== null, ...(cursor === null ? {} : { cursor }) },
      'data',
      thread.data,
    ),
  );
}
