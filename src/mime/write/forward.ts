import type { Recipient } from '../../contract/sending.ts';
import { escapeHtml, htmlToPlain, textToHtml } from '../html.ts';
import type { OutgoingAttachment, OutgoingMessage } from './outgoing-message.ts';

/** The mail that is forwarded; `from.email` is empty and `date` null where it has none. */
export type ForwardedMessage = Pick<
  OutgoingMessage,
  'from' | 'to' | 'cc' | 'subject' | 'html' | 'plainText' | 'attachments'
> & { date: Date | null };

/** Mail programs, and src/mime/reply, treat this line as the end of what the author wrote. */
const LINE = '---------- Forwarded message ----------';

/**
 * The message with the original below its own text, in both forms, under the fields that readers need to know of it; and with
 * the files of the original behind its own. It has HTML when one of the two has.
 */
export function forwardInline(message: OutgoingMessage, original: ForwardedMessage): OutgoingMessage {
  const { attachments, html: originalHtml } = withOwnCids(original, message.attachments);
  const fields = fieldsOf(original);
  const joined = { ...message, subject: subjectOf(message, original.subject) };
  const plain = [plainOf(message), [LINE, ...fields.map(([name, value]) => `${name}: ${value}`)].join('\n')];
  joined.plainText = [...plain, plainOf(original)].filter((text) => text !== '').join('\n\n');
  if (message.html !== null || originalHtml !== null) {
    const own = message.html ?? textToHtml(message.plainText ?? '');
    const quoted = originalHtml === null ? textToHtml(original.plainText ?? '') : innerHtml(originalHtml);
    joined.html = beforeEnd(own, `<br>\n${headerBlock(fields)}\n<br>\n<div>${quoted}</div>\n`);
  }
  joined.attachments = [...message.attachments, ...attachments];
  return joined;
}

/**
 * The message with the whole original as a file (RFC 2046 5.2.1). `source`: its bytes; those of mail that the owner wrote may
 * name Bcc recipients, whom no reader gets to know.
 */
export function forwardAsFile(message: OutgoingMessage, subject: string, source: Buffer): OutgoingMessage {
  const name =
    subject
      .replace(/[\p{Cc}\s/\\:*?"<>|]+/gu, ' ')
      .trim()
      .slice(0, 100) || 'message';
  const file: OutgoingAttachment = {
    filename: `${name}.eml`,
    contentType: 'message/rfc822',
    cid: null,
    inline: false,
    content: withoutBcc(source),
  };
  return { ...message, subject: subjectOf(message, subject), attachments: [...message.attachments, file] };
}

/** A line with its end. Some programs end lines in CR CR LF or in CR alone. */
const HEADER_LINE = /[^\r\n]*(?:\r{0,2}\n|\r|$)/g;
const BCC = /^(?:resent-)?bcc[ \t]*:/i;

/** The source without the Bcc fields of its header; the same bytes when it has none. */
function withoutBcc(source: Buffer): Buffer {
  const kept: string[] = [];
  let end = 0;
  let [isStarted, isBcc] = [false, false];
  for (const [line] of source.toString('latin1').matchAll(HEADER_LINE)) {
    // empty lines may precede the first field
    if (isStarted && /^[\r\n]/.test(line)) break;
    isStarted ||= line.trim() !== '';
    if (!/^[ \t]/.test(line)) isBcc = BCC.test(line);
    if (!isBcc) kept.push(line);
    end += line.length;
  }
  const header = Buffer.from(kept.join(''), 'latin1');
  return header.length === end ? source : Buffer.concat([header, source.subarray(end)]);
}

/** The caller's subject, else that of the original, marked once. */
function subjectOf({ subject }: OutgoingMessage, original: string): string {
  if (subject !== '') return subject;
  return (/^\s*fwd?:/i.test(original) ? original : `Fwd: ${original}`).trim().slice(0, 998);
}

function fieldsOf({ from, date, subject, to, cc }: ForwardedMessage): [name: string, value: string][] {
  const fields: [string, string][] = [
    ['From', people([from])],
    ['Date', date ? date.toUTCString().replace('GMT', '+0000') : ''],
    ['Subject', subject],
    ['To', people(to)],
    ['Cc', people(cc)],
  ];
  return fields.filter(([, value]) => value !== '');
}

function people(list: readonly Recipient[]): string {
  return list
    .filter(({ email }) => email !== '')
    .map(({ email, display_name: name }) => (name ? `${name} <${email}>` : email))
    .join(', ');
}

function headerBlock(fields: readonly [string, string][]): string {
  const lines = fields.map(([name, value]) => `<b>${name}:</b> ${escapeHtml(value)}`);
  return `<div>${[LINE, ...lines].join('<br>\n')}</div>`;
}

function plainOf({ html, plainText }: Pick<OutgoingMessage, 'html' | 'plainText'>): string {
  return (plainText ?? (html === null ? '' : htmlToPlain(html))).trimEnd();
}

/** Tags that frame a document: those of the original stand within the body of another. */
const FRAME = /<(?:!doctype|\/?(?:html|head|body)|meta|base)(?=[\s>/])[^<>]{0,2000}>/gi;

function innerHtml(html: string): string {
  return html.replace(FRAME, '');
}

/** Puts `addition` before the end of the body of an HTML document, else at its end. */
function beforeEnd(html: string, addition: string): string {
  const at = [...html.matchAll(/<\/body\s{0,20}>/gi)].at(-1)?.index ?? html.length;
  return html.slice(0, at) + addition + html.slice(at);
}

/** The original with other Content-IDs where files of the new message have the same ones. */
function withOwnCids(
  { attachments, html }: ForwardedMessage,
  others: readonly OutgoingAttachment[],
): Pick<ForwardedMessage, 'attachments' | 'html'> {
  const taken = new Set(others.map(({ cid }) => cid));
  const renamed = attachments.map((file) =>
    file.cid !== null && taken.has(file.cid) ? { ...file, cid: `forwarded-${file.cid}` } : file,
  );
  const changed = html?.replace(/(?<=cid:)[^\s"'<>()]{1,998}/gi, (cid) => (taken.has(cid) ? `forwarded-${cid}` : cid));
  return { attachments: renamed, html: changed ?? null };
}
