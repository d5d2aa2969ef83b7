import Type from 'typebox';
import { getAttachment } from '../../../db/queries/mail/attachments.ts';
import { existing, Id, type Routes } from '../route.ts';
import { downloadResponses, sendStored } from '../stored.ts';

const Params = Type.Object({ account_id: Id('account'), email_id: Id('email'), attachment_id: Id('attachment') });

/** Route that downloads an attachment. */
export const attachmentRoutes: Routes = (app, { pool, storage }) => {
  app.get(
    '/:account_id/emails/:email_id/attachments/:attachment_id',
    {
      schema: {
        tags: ['Emails'],
        operationId: 'downloadAttachment',
        summary: 'Download an attachment',
        description:
          'Returns the decoded bytes with the Content-Type of the attachment. Supports range requests, and `If-None-Match` ' +
          'with an `ETag`.',
        params: Params,
        response: downloadResponses('The bytes'),
      },
    },
    async (request, reply) => {
      const { account_id, email_id, attachment_id } = request.params;
      const stored = existing(await getAttachment(pool, account_id, email_id, attachment_id), 'attachment');
      const { storageKey: key, mime, name } = stored;
      return sendStored(request, reply, storage, { key, mime, name });
    },
  );
};
