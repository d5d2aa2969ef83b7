import { normalise } from '../../contract/search-text.ts';
import { withUnicodeDomains } from '../../mail-wire/addresses.ts';
import { readAuthenticationFields } from '../authentication/results.ts';
import { readBounce } from '../bounces.ts';
import { readComplaint } from '../complaints.ts';
import { readMessageId, readMessageIds } from '../message-ids.ts';
import { baseSubjectOf, isMarkedSubject } from '../threads.ts';
import { toAttachments } from './attachments.ts';
import { composeBody } from './body.ts';
import { readCalendar } from './calendar.ts';
import { allStorable, storable } from '../../runtime/storable.ts';
import { decodeBytes } from './charsets.ts';
import { readDate } from './dates.ts';
import {
  decodeHeader,
  decodeHeaders,
  firstValue,
  hasMoreAddresses,
  NOBODY,
  rawValues,
  readAddresses,
  readFrom,
  splitHeader,
} from './headers.ts';
import { readMailingList } from './mailing-list.ts';
import { readStart } from './open-source.ts';
import { joinedTexts, type ParsedMail, peopleText } from './parsed-mail.ts';
import type { Part } from './part.ts';
import { type PartLimits, type ReadParts, readParts } from './read-parts.ts';
import { readReplyText } from '../reply/reply-text.ts';

const MAX_SUBJECT = 10_000;
/** Searchable characters of a body: bounds the index. */
const MAX_SEARCHED = 1_000_000;
const ADDRESS_FIELDS = ['to', 'cc', 'bcc', 'reply-to'];
const MAX_BOUNCE_PART = 64 * 1024;

export interface ReadLimits extends PartLimits {
  /** only strip HTML of its tags */
  plainOnly?: boolean;
}

/** Reads one message in the calling thread. @throws only when its file cannot be read */
export async function readMessage(source: Uint8Array | { path: string }, limits: ReadLimits): Promise<ParsedMail> {
  const read = await readParts(source, limits);
  const isHurried = () => limits.plainOnly || limits.isTimeUp();
  const { body, bodyPlain } = composeBody(read, isHurried);
  const attachments = toAttachments(read.parts, body);
  const mail = { ...readHeaders(read), body, bodyPlain, attachments };
  // texts are decoded, and cut, at any position
  return allStorable({
    ...mail,
    bounce: readBounceOf(mail, read),
    complaint: readComplaint(reportParts(read)),
    ...(isReceipt(read) ? { autoReply: 'read_receipt' as const } : {}),
    bodyNew: isHurried() ? null : readReplyText(bodyPlain, body, mayQuote(mail)),
    calendar: isHurried() ? null : readCalendar(read.parts),
    ...searchTexts(mail),
    isPartial: read.isPartial || ADDRESS_FIELDS.some((key) => hasMoreAddresses(read.addresses, key)),
    tempDir: attachments.some(({ content }) => 'path' in content) ? limits.spillDir : null,
  });
}

/** The fields that come from the header alone. */
function readHeaders({ headers, addresses, charset: hint }: ReadParts) {
  const value = (key: string): string => firstValue(headers, key, hint);
  const all = (key: string): string[] => rawValues(headers, key);
  // Python writes ids that are longer than a line as encoded words
  const ids = (key: string): string[] => readMessageIds(decodeHeader(all(key).join(' '), hint));
  const subject = value('subject').slice(0, MAX_SUBJECT);
  const { base, isReply } = baseSubjectOf(subject);
  return {
    messageId: readMessageId(value('message-id')),
    date: readDate(value('date')),
    subject,
    from: readFrom(addresses),
    to: readAddresses(addresses, 'to'),
    cc: readAddresses(addresses, 'cc'),
    bcc: readAddresses(addresses, 'bcc'),
    replyTo: readAddresses(addresses, 'reply-to'),
    headers: decodeHeaders(headers, hint),
    inReplyTo: ids('in-reply-to'),
    references: ids('references'),
    baseSubject: base,
    isReplySubject: isReply,
    authenticationFields: readAuthenticationFields(headers),
    hasSingleFrom: all('from').length === 1 && readAddresses(addresses, 'from').length === 1,
    list: readMailingList(headers),
    autoSubmitted: isAutoSubmitted(value),
    autoReply: isAutoReply(value) ? ('auto_reply' as const) : null,
  };
}

type ReadHeaders = ReturnType<typeof readHeaders>;

/** Whether a mail answers or forwards another, which it may quote. */
function mayQuote({ inReplyTo, references, subject }: ReadHeaders): boolean {
  return inReplyTo.length > 0 || references.length > 0 || isMarkedSubject(subject);
}

/** The normalised texts for search. */
function searchTexts(mail: ReadHeaders & { bodyPlain: string }): Pick<ParsedMail, 'searchText' | 'searchSubject'> {
  const searchSubject = normalise(mail.subject);
  const people = peopleText([mail.from, ...mail.to, ...mail.cc, ...mail.bcc]);
  const body = mail.bodyPlain.slice(0, MAX_SEARCHED);
  const texts = [searchSubject, people, normalise(body), normalise(linesInUnicode(`${mail.subject}\n${body}`))];
  return { searchText: joinedTexts(texts), searchSubject };
}

/** The lines with a domain in Punycode, with that in Unicode: searches ask for this form (withUnicodeDomains). */
function linesInUnicode(text: string): string {
  if (!/xn--/i.test(text)) return '';
  const lines = text.split('\n').filter((line) => /xn--/i.test(line));
  return withUnicodeDomains(lines.join('\n'));
}

/** RFC 3834 5, and the headers that programs used before it. */
function isAutoSubmitted(value: (key: string) => string): boolean {
  const submitted = value('auto-submitted').toLowerCase();
  if (submitted !== '') return !/^no\b/.test(submitted);
  return (
    /^(auto_reply|bulk|junk)$/i.test(value('precedence')) ||
    value('x-autoreply') !== '' ||
    value('x-autorespond') !== ''
  );
}

/** Whether a mail is an automatic reply: an out-of-office notice, a vacation message, a receipt of a ticket system. */
function isAutoReply(value: (key: string) => string): boolean {
  return (
    /^auto-replied/i.test(value('auto-submitted')) ||
    /^auto_reply$/i.test(value('precedence')) ||
    isExchangeReply(value) ||
    ['x-autoreply', 'x-autorespond', 'x-autoresponder', 'x-auto-reply-from'].some((key) => value(key) !== '')
  );
}

/**
 * Whether a rule of an Exchange mailbox wrote a mail as a reply. Forwarded mail has the same fields except for
 * X-Auto-Response-Suppress, which notifications of other programs have, too.
 */
function isExchangeReply(value: (key: string) => string): boolean {
  return (
    /^auto-generated/i.test(value('auto-submitted')) &&
    /(^|[\s,;])(all|oof)\b/i.test(value('x-auto-response-suppress')) &&
    (/^mailbox rules agent$/i.test(value('x-ms-exchange-generated-message-source')) ||
      ['x-ms-exchange-inbox-rules-loop', 'x-ms-exchange-parent-message-id'].some((key) => value(key) !== ''))
  );
}

function readBounceOf(mail: ReadHeaders & { bodyPlain: string }, { headers, parts }: ReadParts) {
  return readBounce({
    from: mail.from.identifier,
    returnPath: firstValue(headers, 'return-path'),
    subject: mail.subject,
    contentType: firstValue(headers, 'content-type'),
    failedRecipients: rawValues(headers, 'x-failed-recipients').join(','),
    autoReplied: mail.autoReply === 'auto_reply',
    autoSubmitted: mail.autoSubmitted,
    inReplyTo: mail.inReplyTo,
    references: mail.references,
    to: mail.to.map(({ identifier }) => identifier),
    bodyPlain: mail.bodyPlain,
    parts: reportParts({ parts }),
  });
}

/** A read receipt (RFC 8098). */
function isReceipt({ parts }: Pick<ReadParts, 'parts'>): boolean {
  return parts.some(({ mime }) => mime === 'message/disposition-notification');
}

function reportParts({ parts }: Pick<ReadParts, 'parts'>): { mime: string; text: string }[] {
  return parts.filter((part) => part.role === 'file').map((part) => ({ mime: part.mime, text: startOf(part) }));
}

/** The start of a part that may belong to a report; '' for other files. */
function startOf(part: Part): string {
  if (!/^(message|text)\//.test(part.mime)) return '';
  return storable(decodeBytes(readStart(part.content, MAX_BOUNCE_PART), part.charset));
}

const MINIMAL_BYTES = 256 * 1024;

/** The last resort: the first 256 KB of the header, undecoded. Takes linear time, so it may run in the main thread. */
export function minimalMail(source: Buffer | { path: string }): ParsedMail {
  const start = readStart(source, MINIMAL_BYTES);
  const headers = splitHeader(start.toString('utf8')).map(({ name, raw }) => ({ name, value: raw }));
  const value = (key: string): string => headers.find(({ name }) => name.toLowerCase() === key)?.value ?? '';
  const subject = value('subject').slice(0, 1000);
  return allStorable({
    messageId: /<[^<>\s]{1,600}>/.exec(value('message-id'))?.[0] ?? null,
    date: null,
    subject,
    from: NOBODY,
    to: [],
    cc: [],
    bcc: [],
    replyTo: [],
    body: '',
    bodyPlain: '',
    headers,
    inReplyTo: [],
    references: [],
    attachments: [],
    bounce: null,
    complaint: null,
    autoReply: null,
    authenticationFields: [],
    hasSingleFrom: false,
    list: null,
    bodyNew: null,
    calendar: null,
    searchText: ` ${subject.toLowerCase()} `,
    searchSubject: ` ${subject.toLowerCase()} `,
    baseSubject: '',
    isReplySubject: false,
    autoSubmitted: false,
    isPartial: true,
    tempDir: null,
  });
}
