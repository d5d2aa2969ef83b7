import Type from 'typebox';
import { Cursor, Limit } from '../../contract/common.ts';
import { DraftList, Email } from '../../contract/email.ts';
import { idPattern } from '../../contract/ids.ts';
import { getDraft, listDrafts } from '../../db/drafts.ts';
import { jsonArray, jsonWith } from '../../db/json-text.ts';
import { AccountParams, answers, found, Id, type Routes, sendJson } from './route.ts';

const DraftId = Type.String({
  pattern: `${idPattern('draft').source}|${idPattern('email').source}`,
  description: '`drf_…`, or the `email_…` id of a draft that has synced',
});

export const draftRoutes: Routes = (app, { pool, cursors }) => {
  app.get(
    '/:account_id/drafts',
    {
      schema: {
        tags: ['Drafts'],
        summary: 'List drafts',
        params: AccountParams,
        querystring: Type.Object({ limit: Limit(), cursor: Type.Optional(Cursor) }),
        response: answers('Drafts that have synced, newest first', DraftList, 'not_found'),
      },
    },
    async ({ params, query }, reply) => {
      const list = { name: 'Drafts', accountId: params.account_id, query };
      const position = cursors.read(list, query.cursor);
      const page = await listDrafts(pool, params.account_id, { limit: query.limit, position });
      return sendJson(
        reply,
        jsonWith<DraftList, 'data'>(
          { object: 'Drafts', has_more: page.next !== null, cursor: cursors.write(list, page.next) },
          { data: jsonArray(page.data) },
        ),
      );
    },
  );

  app.get(
    '/:account_id/drafts/:draft_id',
    {
      schema: {
        tags: ['Drafts'],
        summary: 'Get a draft',
        params: Type.Object({ account_id: Id('account'), draft_id: DraftId }),
        response: answers('The draft, with its `draft_id`', Email, 'not_found'),
      },
    },
    async ({ params }, reply) =>
      sendJson(reply, found(await getDraft(pool, params.account_id, params.draft_id), 'draft')),
  );
};
