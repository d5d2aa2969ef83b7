import Type from 'typebox';
import { Cursor, Limit } from '../../../contract/common.ts';
import { DraftList, Email } from '../../../contract/email.ts';
import { idPattern } from '../../../contract/ids.ts';
import { DraftResult, DraftSent, SendInput } from '../../../contract/sending.ts';
import { getDraft, listDrafts } from '../../../db/queries/mail/drafts.ts';
import { jsonWithItems } from '../../../db/driver/json-text.ts';
import { findDraft } from '../../../outgoing/draft-state.ts';
import { mayHaveLeft } from '../../../outgoing/send-state.ts';
import { checkSendInput, checkTrackable } from '../../send-input.ts';
import {
  AccountParams,
  responses,
  responsesWith,
  existing,
  Id,
  requireWritable,
  requireWritableUnlessMade,
  type Routes,
  sendJson,
} from '../route.ts';

const DraftId = Type.String({
  pattern: `${idPattern('draft').source}|${idPattern('email').source}`,
  description: '`drf_…`, or the `email_…` id of a draft that has synced',
});

const DraftParams = Type.Object({ account_id: Id('account'), draft_id: DraftId });

const ERRORS = ['invalid_credentials', 'not_found', 'provider_rejected', 'provider_error'] as const;

/** Routes that read, save, delete and send drafts. */
export const draftRoutes: Routes = (app, { db, pool, cursors, commands, settings }) => {
  app.get(
    '/:account_id/drafts',
    {
      schema: {
        tags: ['Drafts'],
        operationId: 'listDrafts',
        summary: 'List drafts',
        description: 'Returns the drafts that have synced.',
        params: AccountParams,
        querystring: Type.Object({ limit: Limit(), cursor: Type.Optional(Cursor) }),
        response: responses('Drafts, newest first', DraftList, 'not_found'),
      },
    },
    async ({ params, query }, reply) => {
      const list = { name: 'Drafts', accountId: params.account_id, query };
      const position = cursors.read(list, query.cursor);
      const page = await listDrafts(pool, params.account_id, { limit: query.limit, position });
      return sendJson(
        reply,
        jsonWithItems<DraftList, 'data'>(
          { object: 'Drafts', has_more: page.next !== null, cursor: cursors.write(list, page.next) },
          'data',
          page.data,
        ),
      );
    },
  );

  app.get(
    '/:account_id/drafts/:draft_id',
    {
      schema: {
        tags: ['Drafts'],
        operationId: 'getDraft',
        summary: 'Get a draft',
        description: 'Returns a draft by its `drf_…` id, or by its `email_…` id.',
        params: DraftParams,
        response: responses('The draft, with its `draft_id`', Email, 'not_found'),
      },
    },
    async ({ params }, reply) =>
      sendJson(reply, existing(await getDraft(pool, params.account_id, params.draft_id), 'draft')),
  );

  app.post(
    '/:account_id/drafts',
    {
      bodyLimit: settings.bodyBytes,
      config: { idempotent: true, reserves: 'draft' },
      schema: {
        tags: ['Drafts'],
        operationId: 'createDraft',
        summary: 'Create a draft',
        description: 'Saves the draft in the folder with the role DRAFTS, where mail programs show it too.',
        params: AccountParams,
        body: SendInput,
        response: responsesWith(201, 'The saved draft', DraftResult, 'already_exists', ...ERRORS),
      },
    },
    async (request, reply) => {
      const { params, body, caller, reservedId: id } = request;
      checkSendInput(body, settings.send, 'draft');
      checkTrackable(body.tracking_options, Boolean(body.html));
      await requireWritableUnlessMade(db, request, params.account_id, () => findDraft(db, params.account_id, id));
      const draft = await commands.createDraft(params.account_id, { caller, id }, body);
      return reply.code(201).send(draft);
    },
  );

  app.patch(
    '/:account_id/drafts/:draft_id',
    {
      bodyLimit: settings.bodyBytes,
      config: { reserves: 'draft' },
      schema: {
        tags: ['Drafts'],
        operationId: 'updateDraft',
        summary: 'Update a draft',
        description:
          'Replaces the given fields, `attachments` as a whole; omitted fields do not change. The draft is saved under a ' +
          'new id, and the previous id stops working.',
        params: DraftParams,
        body: SendInput,
        response: responses('The saved draft', DraftResult, ...ERRORS),
      },
    },
    async ({ params, body, caller, reservedId: id }) => {
      checkSendInput(body, settings.send, 'update');
      await requireWritable(db, params.account_id);
      return commands.updateDraft(params.account_id, { caller, id }, params.draft_id, body);
    },
  );

  app.delete(
    '/:account_id/drafts/:draft_id',
    {
      schema: {
        tags: ['Drafts'],
        operationId: 'deleteDraft',
        summary: 'Delete a draft',
        description: 'Deletes the draft permanently.',
        params: DraftParams,
        response: responsesWith(204, 'The draft is deleted', null, ...ERRORS),
      },
    },
    async ({ params }, reply) => {
      await requireWritable(db, params.account_id);
      await commands.deleteDraft(params.account_id, params.draft_id);
      return reply.code(204).send();
    },
  );

  app.post(
    '/:account_id/drafts/:draft_id/send',
    {
      config: { idempotent: true, reserves: 'email' },
      schema: {
        tags: ['Drafts'],
        operationId: 'sendDraft',
        summary: 'Send a draft',
        description:
          'Responds when the mail server has accepted the email, and removes the draft. A rejected draft does not change.',
        params: DraftParams,
        response: responses('The draft is sent', DraftSent, 'already_exists', ...ERRORS),
      },
    },
    async (request) => {
      const { params, caller, reservedId } = request;
      await requireWritableUnlessMade(db, request, params.account_id, () =>
        mayHaveLeft(db, params.account_id, reservedId),
      );
      return commands.sendDraft(params.account_id, caller, reservedId, params.draft_id);
    },
  );
};
