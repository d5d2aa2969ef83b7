import { EmailSent, SendInput } from '../../contract/sending.ts';
import { checkSendInput } from '../send-input.ts';
import { AccountParams, responses, requireWritable, type Routes } from './route.ts';

/** Sending (CONTRACT "Emails"). */
export const sendRoutes: Routes = (app, { db, commands, settings }) => {
  app.post(
    '/:account_id/emails/send',
    {
      bodyLimit: settings.bodyBytes,
      config: { idempotent: true, reserves: 'email' },
      schema: {
        tags: ['Emails'],
        operationId: 'sendEmail',
        summary: 'Send an email',
        description:
          'At least one recipient over `to`, `cc` and `bcc`, and one of `html`, `plain_text`, `subject` and ' +
          '`attachments`. Responds when the mail server has accepted the email; its copy then goes to the folder whose ' +
          'role is SENT, under the `id` given here. With an `Idempotency-Key` nothing is sent twice.',
        params: AccountParams,
        body: SendInput,
        response: responses(
          'Sent',
          EmailSent,
          ...(['invalid_credentials', 'not_found', 'already_exists', 'provider_rejected', 'provider_error'] as const),
        ),
      },
    },
    async ({ params, body, caller, reservedId }) => {
      checkSendInput(body, settings.send, 'send');
      await requireWritable(db, params.account_id);
      return commands.sendEmail(params.account_id, caller, reservedId, body);
    },
  );
};
