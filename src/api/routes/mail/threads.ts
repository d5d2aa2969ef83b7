import type { FastifyReply } from 'fastify';
import Type from 'typebox';
import { Cursor, DateTime, Limit, MAX_LIMIT } from '../../../contract/common.ts';
import { Thread } from '../../../contract/email.ts';
import { ThreadList } from '../../../contract/thread.ts';
import { jsonWithItems } from '../../../db/driver/json-text.ts';
import { listThreads } from '../../../db/queries/mail/thread-list.ts';
import { getThread } from '../../../db/queries/mail/threads.ts';
import { readOptionalDate } from '../../http/dates.ts';
import { MetaOnly } from './email-query.ts';
import { EmailParams } from './emails.ts';
import { AccountParams, responses, existing, Id, type RouteDeps, type Routes, sendJson } from '../route.ts';

const ThreadQuery = Type.Object({ meta_only: MetaOnly, limit: Limit(MAX_LIMIT), cursor: Type.Optional(Cursor) });

const ThreadsQuery = Type.Object({
  is_unread: Type.Optional(Type.Boolean({ description: 'threads with or without an unread email' })),
  is_starred: Type.Optional(Type.Boolean({ description: 'threads with or without a starred email' })),
  has_attachment: Type.Optional(Type.Boolean({ description: 'threads with or without attachments' })),
  before: Type.Optional(DateTime('whose last email is dated before this time, exclusive')),
  after: Type.Optional(DateTime('whose last email is dated after this time, exclusive')),
  limit: Limit(),
  cursor: Type.Optional(Cursor),
});

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
        description: 'Returns the conversations of the mailbox, without drafts.',
        params: AccountParams,
        querystring: ThreadsQuery,
        response: responses('Threads, the one with the latest email first', ThreadList, 'not_found'),
      },
    },
    async ({ params: { account_id: accountId }, query }) => {
      const list = { name: 'Threads', accountId, query };
      const position = deps.cursors.read(list, query.cursor);
      const filter = {
        ...{ isUnread: query.is_unread, isStarred: query.is_starred, hasAttachment: query.has_attachment },
        ...{ before: readOptionalDate(query.before), after: readOptionalDate(query.after) },
      };
      const { data, next } = await listThreads(deps.db, accountId, { filter, limit: query.limit, position });
      return { object: 'Threads' as const, data, has_more: next !== null, cursor: deps.cursors.write(list, next) };
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
