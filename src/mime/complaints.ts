import { attachedMessageIds } from './bounces.ts';

/** What a feedback report says (ARF, RFC 5965); null where it does not. */
export interface ComplaintReport {
  feedbackType: string | null;
  /** who complains, as far as the provider says */
  recipient: string | null;
  sourceIp: string | null;
  userAgent: string | null;
  /** possible Message-IDs of the mail that is complained of, the likeliest first, with angle brackets */
  messageIds: string[];
}

const MAX_VALUE = 500;

/**
 * What a complaint reports; null when a mail has no message/feedback-report part, or one about a mail that was not
 * authenticated (RFC 6591): nobody complains there.
 */
export function readComplaint(parts: readonly { mime: string; text: string }[]): ComplaintReport | null {
  const report = parts.find(({ mime }) => mime === 'message/feedback-report')?.text;
  if (report === undefined) return null;
  const value = (name: string): string | null => {
    const found = new RegExp(String.raw`^${name}[ \t]{0,10}:[ \t]{0,50}([^\r\n]{1,${MAX_VALUE}})`, 'im').exec(
      report,
    )?.[1];
    return found?.trim() || null;
  };
  const feedbackType = value('Feedback-Type')?.toLowerCase() ?? null;
  if (feedbackType === 'auth-failure') return null;
  const recipient = value('Original-Rcpt-To') ?? value('Removal-Recipient');
  return {
    feedbackType,
    recipient: recipient?.replace(/^(rfc822;)?\s*<?|>$/gi, '') || null,
    sourceIp: value('Source-IP'),
    userAgent: value('User-Agent'),
    messageIds: attachedMessageIds(parts),
  };
}
