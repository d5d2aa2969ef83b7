import type { Header } from '../contract/email.ts';
import { isId } from '../contract/ids.ts';
import { ApiError } from '../contract/errors.ts';
import {
  type Recipient,
  SEND_BOUNDS,
  type SendAttachment,
  type SendInput,
  type TrackingOptions,
} from '../contract/sending.ts';

/** Configurable limits of one email: `MAX_ATTACHMENT_BYTES`, `MAX_ATTACHMENTS`, `MAX_RECIPIENTS`, `MAX_SUBJECT_LENGTH`. */
export interface SendLimits {
  /** decoded bytes of all attachments */
  attachmentBytes: number;
  /** files */
  attachments: number;
  /** across to, cc and bcc */
  recipients: number;
  /** characters */
  subject: number;
}

export const DEFAULT_SEND_LIMITS: SendLimits = {
  attachmentBytes: 25 * 1024 * 1024,
  attachments: 100,
  recipients: 500,
  subject: 998,
};

/** Line limit of RFC 5322 2.1.1, minus the longest header name. */
const MAX_HEADER_WORD = 800;

/**
 * Checks what the schema of an email or draft cannot: limits, characters that a header must not contain (CR, LF, NUL:
 * RFC 5322 2.2), base64, allowed headers, and, for `send`, the presence of a recipient and content. Allocates nothing
 * and takes tens of milliseconds for 40 MiB.
 * @throws ApiError `invalid_parameters`; its detail begins with the field name and never contains the value
 */
export function checkSendInput(input: SendInput, limits: SendLimits, mode: 'send' | 'draft' | 'update'): void {
  checkRecipients(input, limits);
  if (input.from) {
    checkText('from.display_name', input.from.display_name, SEND_BOUNDS.name);
    checkAddress('from.email', input.from.email);
  }
  checkText('subject', input.subject, limits.subject);
  checkOriginal(input);
  checkHeaders(input.custom_headers ?? []);
  checkAttachments(input.attachments ?? [], limits);
  if (input.tracking_options) checkTrackingOptions(input.tracking_options);
  if (mode === 'update' && input.forward_message_id !== undefined) {
    throw invalid('forward_message_id is for new drafts: this one keeps what it forwards');
  }
  if (mode !== 'send') return;
  if (countRecipients(input) === 0) throw invalid('to, cc or bcc must contain a recipient');
  if (!(input.html || input.plain_text || input.subject || input.attachments?.length || input.forward_message_id)) {
    throw invalid('one of html, plain_text, subject and attachments must have content');
  }
  checkTrackable(input.tracking_options, Boolean(input.html));
}

function checkOriginal(input: SendInput): void {
  for (const field of ['reply_to_message_id', 'forward_message_id'] as const) {
    checkText(field, input[field], SEND_BOUNDS.messageId);
    // brackets alone are no Message-ID either
    if (/^[\s<>]*$/.test(input[field] ?? 'none')) throw invalid(`${field} is empty`);
  }
  if (input.forward_message_id === undefined) {
    if (input.forward_as !== undefined) throw invalid('forward_as requires forward_message_id');
  } else if (input.reply_to_message_id !== undefined) {
    throw invalid('an email is a reply or forwards another: give reply_to_message_id or forward_message_id');
  }
}

/**
 * Checks that an email has HTML when its opens or links are tracked; for drafts, pass the draft after the change.
 * @throws ApiError `invalid_parameters`
 */
export function checkTrackable(options: TrackingOptions | undefined, hasHtml: boolean): void {
  if (!hasHtml && (options?.opens || options?.links)) throw invalid('tracking_options requires html');
}

function invalid(detail: string): ApiError {
  return new ApiError('invalid_parameters', detail);
}

/** Checks text that becomes part of a header. */
export function checkText(field: string, text: string | undefined, maxLength: number): void {
  if (text === undefined) return;
  if (text.length > maxLength) throw invalid(`${field} is longer than ${maxLength} characters`);
  if (/[\r\n\0]/.test(text)) throw invalid(`${field} contains a line break or NUL`);
}

/** `"a<b"@c` is an address (RFC 5322 3.4.1) that the SMTP library would send to another one. */
function checkAddress(field: string, address = ''): void {
  checkText(field, address, SEND_BOUNDS.address);
  if (/[<>]/.test(address)) throw invalid(`${field} contains < or >`);
}

/** How many entries To, Cc and Bcc have. */
export function countRecipients({ to = [], cc = [], bcc = [] }: SendInput): number {
  return to.length + cc.length + bcc.length;
}

function checkRecipients(input: SendInput, limits: SendLimits): void {
  if (countRecipients(input) > limits.recipients)
    throw invalid(`to, cc and bcc contain more than ${limits.recipients} recipients`);
  const { reply_to: replyTo = [] } = input;
  if (replyTo.length > limits.recipients) throw invalid(`reply_to contains more than ${limits.recipients} addresses`);
  for (const field of ['to', 'cc', 'bcc', 'reply_to'] as const) {
    input[field]?.forEach((recipient: Recipient, index) => {
      checkAddress(`${field}.${index}.email`, recipient.email);
      checkText(`${field}.${index}.display_name`, recipient.display_name, SEND_BOUNDS.name);
    });
  }
}

const ONCE = /^(list-unsubscribe|list-unsubscribe-post|auto-submitted|reply-to)$/;
const AUTO_SUBMITTED = /^(no|auto-replied|auto-generated|auto-notified)$/i;

function checkHeaders(headers: readonly Header[]): void {
  if (headers.length > SEND_BOUNDS.headers) throw invalid(`custom_headers has more than ${SEND_BOUNDS.headers} items`);
  const seen = new Set<string>();
  headers.forEach(({ name, value }, index) => {
    const field = `custom_headers.${index}`;
    checkText(`${field}.name`, name, SEND_BOUNDS.headerName);
    const key = name.toLowerCase();
    if (!ONCE.test(key) && !/^x-[!-9;-~]+$/.test(key)) throw invalid(`${field}.name is not allowed`);
    checkText(`${field}.value`, value, SEND_BOUNDS.headerValue);
    if (!ONCE.test(key)) return;
    if (seen.has(key)) throw invalid(`${field}.name must be given once`);
    seen.add(key);
    checkStructured(`${field}.value`, key, value);
  });
}

/** Checks values that programs read: ASCII, with words that fit on a line. */
function checkStructured(field: string, key: string, value: string): void {
  if (key === 'auto-submitted' && !AUTO_SUBMITTED.test(value.trim())) {
    throw invalid(`${field} must be no, auto-replied, auto-generated or auto-notified`);
  }
  if (key === 'reply-to') {
    if (!/[^\s@<>]@[^\s@<>]/.test(value)) throw invalid(`${field} must contain an email address`);
    return;
  }
  if (/[^\t\x20-\x7e]/.test(value)) throw invalid(`${field} must be in ASCII`);
  if (value.split(' ').some((word) => word.length > MAX_HEADER_WORD)) {
    throw invalid(`${field} contains a word of more than ${MAX_HEADER_WORD} characters`);
  }
}

/** `type/subtype` and parameters (RFC 2045 5.1), except multipart types. */
const TOKEN = "[A-Za-z0-9!#$%&'*+.^_`|~-]+";
const CONTENT_TYPE = new RegExp(`^(?!multipart/)${TOKEN}/${TOKEN}( *; *${TOKEN}=(${TOKEN}|"[^"\\\\]*"))*$`, 'i');

/** Whether an attachment may have this type. */
export const isMediaType = (type: string): boolean => type.length <= SEND_BOUNDS.fileName && CONTENT_TYPE.test(type);

function checkAttachments(attachments: readonly SendAttachment[], limits: SendLimits): void {
  if (attachments.length > limits.attachments) throw invalid(`attachments has more than ${limits.attachments} items`);
  let bytes = 0;
  attachments.forEach(({ content, filename, content_type: type, cid }, index) => {
    const field = `attachments.${index}`;
    checkText(`${field}.filename`, filename, SEND_BOUNDS.fileName);
    checkText(`${field}.content_type`, type, SEND_BOUNDS.fileName);
    checkText(`${field}.cid`, cid, SEND_BOUNDS.cid);
    if (type && !isMediaType(type)) throw invalid(`${field}.content_type is not a media type`);
    if (cid && !/^<?[!-;=?-~]+>?$/.test(cid)) throw invalid(`${field}.cid is not a Content-ID`);
    checkSource(field, attachments[index] as SendAttachment);
    const length = base64Length(content ?? '');
    if (length === null) throw invalid(`${field}.content is not base64`);
    bytes += length;
    if (bytes > limits.attachmentBytes) throw invalid(`attachments are larger than ${limits.attachmentBytes} bytes`);
  });
}

/** An attachment has its content, or names a stored file or an upload. */
function checkSource(field: string, attachment: SendAttachment): void {
  const { content, email_id: emailId, attachment_id: id, upload_id: uploadId } = attachment;
  const isStored = emailId !== undefined || id !== undefined;
  if ([content !== undefined, isStored, uploadId !== undefined].filter(Boolean).length !== 1) {
    throw invalid(`${field} must have one of content, email_id with attachment_id, and upload_id`);
  }
  if (uploadId !== undefined && !isId('upload', uploadId))
    throw invalid(`${field}.upload_id is not the id of an upload`);
  if (isStored && !(isId('email', emailId ?? '') && isId('attachment', id ?? ''))) {
    throw invalid(`${field} must have the ids of an email and of one of its attachments`);
  }
}

/**
 * Checks the limits again for attachments that have passed `checkSendInput`: `stored` are the bytes of the stored files and uploads
 * among them, and the number and bytes of those of a forwarded email.
 * @throws ApiError `invalid_parameters`
 */
export function checkFiles(
  attachments: readonly SendAttachment[],
  stored: { count: number; bytes: number },
  limits: SendLimits,
): void {
  if (stored.count === 0 && stored.bytes === 0) return;
  if (attachments.length + stored.count > limits.attachments) {
    throw invalid(`attachments and the forwarded email have more than ${limits.attachments} files`);
  }
  const bytes = attachments.reduce((sum, { content = '' }) => sum + bytesOf(content.replace(/=+$/, '').length), 0);
  if (bytes + stored.bytes > limits.attachmentBytes) {
    throw invalid(
      `attachments, stored files among them, and the files of a forwarded email are larger than ${limits.attachmentBytes} bytes`,
    );
  }
}

const LABEL = '[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?';
const HOST = new RegExp(`^(?=.{1,253}(:|$))(${LABEL}\\.)*${LABEL}(:[0-9]{1,5})?$`, 'i');

/** Accepts only host names, not IP addresses in any notation (the last label of a name is not numeric, RFC 3696 2). */
function checkTrackingOptions({ custom_domain: domain, label }: TrackingOptions): void {
  checkText('tracking_options.label', label, 255);
  if (domain === undefined) return;
  checkText('tracking_options.custom_domain', domain, SEND_BOUNDS.domain);
  const [, last = '', port] = /([^.:]*)(?::(\d+))?$/.exec(domain) ?? [];
  const isNumber = /^([0-9]+|0x[0-9a-f]*)$/i.test(last);
  if (!HOST.test(domain) || isNumber || Number(port ?? 443) > 65535 || Number(port ?? 443) < 1) {
    throw invalid('tracking_options.custom_domain is not a host name');
  }
}

/*
 * Base64 (RFC 4648 4). Buffer skips invalid characters, which would truncate a broken attachment. Contents have tens of
 * megabytes: the check decodes them piece by piece into one small buffer and counts the bytes.
 */

const PIECE_CHARS = 256 * 1024;
const scratch = Buffer.alloc((PIECE_CHARS / 4) * 3);

const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';
/** Unused bits of the last character, by the number of characters in the last group. */
const UNUSED_BITS = [0, 0, 0b1111, 0b11];

/**
 * The decoded length of base64 text in bytes; null when the text is not base64: it has other characters (line breaks and
 * the URL alphabet included), an impossible length, misplaced padding, or unused bits that are set. Padding is optional.
 */
export function base64Length(text: string): number | null {
  let length = text.length;
  if (text.endsWith('=')) {
    if (length % 4 !== 0) return null;
    length -= text.endsWith('==') ? 2 : 1;
  }
  const rest = length % 4;
  if (rest === 1 || text.includes('-') || text.includes('_')) return null;
  for (let start = 0; start < length; start += PIECE_CHARS) {
    const piece = text.slice(start, Math.min(start + PIECE_CHARS, length));
    // Buffer uses the lower eight bits of each character: non-ASCII characters could pass as base64
    if (Buffer.byteLength(piece) !== piece.length) return null;
    if (scratch.write(piece, 'base64') !== bytesOf(piece.length)) return null;
  }
  const unused = ALPHABET.indexOf(text.charAt(length - 1)) & (UNUSED_BITS[rest] as number);
  return unused === 0 ? bytesOf(length) : null;
}

function bytesOf(chars: number): number {
  return Math.floor((chars * 3) / 4);
}
