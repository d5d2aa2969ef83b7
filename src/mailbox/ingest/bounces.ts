import type { Bounce } from '../../contract/email.ts';
import type { Queryable } from '../../db/client.ts';
import type { ParsedMail } from '../../mime/parser.ts';
import { findBounced } from '../store/bounces.ts';

/** What the report of each mail says, and which of our emails it is about; null for mail that is no bounce. */
export async function tieBounces(
  db: Queryable,
  accountId: string,
  mails: readonly Pick<ParsedMail, 'bounce'>[],
): Promise<(Bounce | null)[]> {
  const bounced = await findBounced(
    db,
    accountId,
    mails.flatMap(({ bounce }) => bounce?.messageIds ?? []),
  );
  return mails.map(({ bounce }) => {
    if (!bounce) return null;
    const { recipient, action, status, diagnostic, messageIds } = bounce;
    const messageId = messageIds.find((id) => bounced.has(id)) ?? messageIds[0] ?? null;
    const email = messageId === null ? undefined : bounced.get(messageId);
    return {
      recipient,
      action,
      status,
      diagnostic,
      message_id: messageId,
      email_id: email?.emailId ?? null,
      tracking_id: email?.trackingId ?? null,
    };
  });
}
