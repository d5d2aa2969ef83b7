import EmailReplyParser from 'email-reply-parser';

/** Longer texts are no replies that a person wrote; the library needs time for each line. */
const MAX_LENGTH = 64 * 1024;
const MAX_LINE = 2000;

/**
 * The part of a plain text that its author wrote: without the mail that it answers, and without the signature. Null where
 * that is not known: in a text that is empty, too long, or a quote altogether.
 */
export function readReplyText(bodyPlain: string): string | null {
  if (bodyPlain.trim() === '' || bodyPlain.length > MAX_LENGTH) return null;
  if (bodyPlain.split('\n').some((line) => line.length > MAX_LINE)) return null;
  try {
    return new EmailReplyParser().parseReply(bodyPlain).trim() || null;
  } catch {
    return null;
  }
}
