/** The part of email-reply-parser that is used here; the package has no types. */
declare module 'email-reply-parser/lib/parser/emailparser.js' {
  export default class EmailParser {
    parse(text: string): { getVisibleText(): string };
    stringReverse(text: string): string;
    fixBrokenSignatures(text: string): string;
    getAnswerHeadersRegex(): readonly RegExp[];
    /** the line is reversed */
    isSignature(line: string): boolean;
  }
}
