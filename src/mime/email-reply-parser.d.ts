/** The part of email-reply-parser that is used here; the package has no types of its own. */
declare module 'email-reply-parser' {
  export default class EmailReplyParser {
    /** the text without quotes and signature */
    parseReply(text: string): string;
  }
}
