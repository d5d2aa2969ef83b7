import { EmailSent, SendInput } from '../../../contract/sending.ts';
import { checkSendInput } from '../../send-input.ts';
import { AccountParams, responses, requireWritable, type Routes } from '../route.ts';

/** Route that sends an email. */
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
          'Requires a recipient in `to`, `cc` or `bcc`, and one of `html`, `plain_text`, `subject` and `attachments`. ' +
          'Responds when the mail server has accepted the email; the copy in the folder with the role SENT then has the ' +
          '`id` of the response. An `Idempotency-Key` prevents sending twice.',
        params: AccountParams,
        body: SendInput,
        response: responses(
          'The email is sent',
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
