import { EmailSent, SendInput } from '../../../contract/sending.ts';
import { mayHaveLeft } from '../../../outgoing/send-state.ts';
import { checkSendInput } from '../../send-input.ts';
import { AccountParams, responses, requireWritableUnlessMade, type Routes } from '../route.ts';

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
    async (request) => {
      const { params, body, caller, reservedId } = request;
      checkSendInput(body, settings.send, 'send');
      await requireWritableUnlessMade(db, request, params.account_id, () =>
        mayHaveLeft(db, params.account_id, reservedId),
      );
      return commands.sendEmail(params.account_id, caller, reservedId, body);
    },
  );
};
