import type { Attendee, AutoReply, Calendar, Header, MailingList } from '../../contract/email.ts';
import { normalise } from '../../contract/search-text.ts';
import type { AuthenticationField } from '../authentication/results.ts';
import type { BounceReport } from '../bounces.ts';
import type { ComplaintReport } from '../complaints.ts';

/** A parsed message. Its strings contain no U+0000 and no lone surrogates, which Postgres would refuse. */
export interface ParsedMail {
  /** with its angle brackets */
  messageId: string | null;
  /** the Date header; null when missing or not credible (use INTERNALDATE then) */
  date: Date | null;
  subject: string;
  /** identifier '' without a From */
  from: Attendee;
  to: Attendee[];
  cc: Attendee[];
  bcc: Attendee[];
  replyTo: Attendee[];
  /** the HTML part as sent, else an HTML rendering of the text */
  body: string;
  /** the text part, else text made from the HTML */
  bodyPlain: string;
  /** every header in order, unfolded, decoded */
  headers: Header[];
  /** Message-IDs with their angle brackets */
  inReplyTo: string[];
  references: string[];
  attachments: ParsedAttachment[];
  /** set when the mail is a bounce; fields that the report omits are null */
  bounce: BounceReport | null;
  /** set when the mail is a feedback report */
  complaint: ComplaintReport | null;
  /** set when the mail is an automatic reply */
  autoReply: AutoReply | null;
  /** the author's text, without quotes and signature; null when unknown */
  bodyNew: string | null;
  /** by whomever; see src/mime/authentication/judge.ts */
  authenticationFields: AuthenticationField[];
  /** From has one address, in one field */
  hasSingleFrom: boolean;
  /** set when the mail came over a mailing list */
  list: MailingList | null;
  /** the event of an invitation */
  calendar: Calendar | null;
  /** normalised (contract/search-text.ts) subject, addresses, names and plain body */
  searchText: string;
  /** normalised subject */
  searchSubject: string;
  /** RFC 5256 base subject */
  baseSubject: string;
  /** the subject began with a reply or forward prefix */
  isReplySubject: boolean;
  /** Auto-Submitted (RFC 3834) or one of its forerunners says that a program wrote it */
  autoSubmitted: boolean;
  /** parsing was cut short (deadline, memory, nesting): parts of body and attachments may be missing */
  isPartial: boolean;
  /** folder with the attachments that are files, which the caller removes; null without any */
  tempDir: string | null;
}

export interface ParsedAttachment {
  name: string;
  /** lower case, without the dot; '' when the name has none */
  extension: string;
  /** bytes, decoded */
  size: number;
  mime: string;
  /** Content-ID without its angle brackets */
  cid: string | null;
  /** Content-Disposition says inline, or the body shows it; see attachments.ts */
  inline: boolean;
  /** not a file for the reader: an image in the HTML, an alternative of the text, a machine-readable part of a report */
  embedded: boolean;
  /** the decoded bytes, or a file in the mail's tempDir that holds them */
  content: Buffer | { path: string };
}

/** The mail with these Bcc recipients, which are also searched for, unless it names its own. */
export function withBcc(mail: ParsedMail, bcc: readonly Attendee[]): ParsedMail {
  if (mail.bcc.length > 0 || bcc.length === 0) return mail;
  const searchText = joinedTexts([mail.searchText, peopleText(bcc)]);
  return { ...mail, bcc: [...bcc], searchText };
}

/** The normalised addresses and names of people. */
export function peopleText(people: readonly Attendee[]): string {
  return normalise(people.map((who) => `${who.display_name} ${who.identifier}`).join('\n'));
}

/** Joins normalised texts to one. */
export function joinedTexts(texts: readonly string[]): string {
  return texts.join('').replace(/ {2,}/g, ' ');
}

/** Whether a mail has attachments for its reader: at least one that is not part of the body. */
export function hasAttachments(attachments: readonly { embedded: boolean }[]): boolean {
  return attachments.some((attachment) => !attachment.embedded);
}
