import Type from 'typebox';
import { findFile } from '../../downloads.ts';
import { existing, Id, type Routes } from '../route.ts';
import { downloadResponses, DownloadQuery, sendStored } from '../stored.ts';

const Params = Type.Object({ account_id: Id('account'), email_id: Id('email'), attachment_id: Id('attachment') });

/** Route that downloads an attachment. */
export const attachmentRoutes: Routes = (app, { pool, storage, links }) => {
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
        querystring: DownloadQuery,
        response: downloadResponses('The bytes', '*/*'),
      },
    },
    async (request, reply) => {
      const { account_id, email_id, attachment_id } = request.params;
      const file = { accountId: account_id, emailId: email_id, attachmentId: attachment_id };
      const stored = existing(await findFile(pool, file), 'attachment');
      if (request.query.link) return reply.send(links.write(file, request.caller.apiKeyId));
      return sendStored(request, reply, storage, stored);
    },
  );
};
