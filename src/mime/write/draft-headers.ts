/*
 * Headers that mean something to the program that wrote a draft, or to a server that carried a message, and nothing
 * to who reads the mail.
 */

/** Settings of a mail program for its own draft: Thunderbird, Apple Mail, Outlook, KMail, Evolution. */
const OF_DRAFTS =
  /^(x-mozilla-.*|x-identity-key|x-account-key|fcc|x-fcc|x-unsent|x-apple-.*|x-uniform-type-identifier|x-universally-unique-identifier|x-kmail-.*|x-evolution-.*)$/i;

/** What a mail on its way or a mail store added. */
const OF_CARRIAGE =
  /^(received|x-received|return-path|delivered-to|x-original-to|envelope-to|dkim-signature|arc-.*|authentication-results|received-spf|domainkey-signature|status|x-status|x-uid|x-uidl|x-keywords|resent-bcc)$/i;

/** Headers that the parts of a Letter stand for. */
const OF_LETTER = /^(from|to|cc|bcc|reply-to|subject|date|message-id|in-reply-to|references|mime-version|content-.*)$/i;

/** Whether a header is a mail program's note to itself, which is not to be sent. */
export function isDraftHeader(name: string): boolean {
  return OF_DRAFTS.test(name);
}

/** Whether a header tells how a message came to where it lies. */
export function isTraceHeader(name: string): boolean {
  return OF_CARRIAGE.test(name);
}

/** Whether a Letter has a field for that header, or composing makes it anew. */
export function isLetterHeader(name: string): boolean {
  return OF_LETTER.test(name);
}
