import type { AlertMessage } from '../contract/overview.ts';
import { compose } from '../mime/write/compose.ts';
import { alertSubject } from './text.ts';

/** A mail about problems, as bytes. The same message gives the same bytes and Message-ID, at each attempt. */
export function alertMail(message: AlertMessage, { from, to }: { from: string; to: string[] }): Promise<Buffer> {
  const person = (email: string) => ({ email });
  return compose(
    {
      ...{ from: person(from), to: to.map(person), cc: [], bcc: [], replyTo: [] },
      ...{ subject: alertSubject(message), html: null, plainText: message.text, attachments: [] },
      // RFC 3834: vacation programs do not answer
      headers: [{ name: 'Auto-Submitted', value: 'auto-generated' }],
      messageId: `<${message.id}@${from.slice(from.lastIndexOf('@') + 1)}>`,
      date: new Date(message.created_at),
      ...{ inReplyTo: null, references: [] },
    },
    { keepBcc: false },
  );
}
