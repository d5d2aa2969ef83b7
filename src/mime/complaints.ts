import { attachedMessageIds } from './bounces.ts';

/** A feedback report (ARF, RFC 5965); fields that it omits are null. */
export interface ComplaintReport {
  feedbackType: string | null;
  /** the complaining recipient, if the provider names it */
  recipient: string | null;
  sourceIp: string | null;
  userAgent: string | null;
  /** possible Message-IDs of the reported mail, the likeliest first, with angle brackets */
  messageIds: string[];
}

const MAX_VALUE = 500;

/**
 * The report of a complaint; null when a mail has no message/feedback-report part, or one about failed authentication
 * (RFC 6591), which is not a complaint.
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
