import {
  clean,
  ENHANCED_STATUS,
  isDelayText,
  isReportText,
  MAX_RECIPIENTS,
  quotesMail,
  readPlainReport,
  recipientsIn,
  type ReportedRecipient,
  reportLines,
  responseIn,
} from './bounce-text.ts';
import { readMessageId, readMessageIds } from './message-ids.ts';

/** A delivery report (RFC 3464); fields that it omits are null. */
export interface BounceReport {
  recipient: string | null;
  /** failed, delayed, delivered, relayed or expanded */
  action: string | null;
  /** enhanced status code, RFC 3463 */
  status: string | null;
  diagnostic: string | null;
  /** every recipient of the report, failed ones first; the four fields above are those of the first */
  recipients: ReportedRecipient[];
  /** possible Message-IDs of the bounced mail, the likeliest first, with angle brackets */
  messageIds: string[];
}

/** The facts that decide whether a mail is a bounce: all decoded, header values '' when missing. */
export interface BounceFacts {
  /** address of the From header, or a bare local part */
  from: string;
  /** Return-Path as written */
  returnPath: string;
  subject: string;
  /** Content-Type of the message as a whole, with its parameters */
  contentType: string;
  /** X-Failed-Recipients */
  failedRecipients: string;
  /** Auto-Submitted or one of its forerunners marks it as an automatic reply */
  autoReplied: boolean;
  /** Auto-Submitted says that a program wrote it */
  autoSubmitted?: boolean;
  inReplyTo: readonly string[];
  references: readonly string[];
  /** the recipient of the notice: the sender of the bounced mail */
  to?: readonly string[];
  bodyPlain: string;
  /** the message's parts that are not body text, with the first 64 KB of their content as text */
  parts: readonly { mime: string; text: string }[];
}

const DELIVERY_STATUS = /^message\/(global-)?delivery-status$/;
const ORIGINAL = /^(message\/(rfc822|global)|text\/rfc822-headers|message\/global-headers)$/;
const BOUNCE_SENDER = /^(mailer-daemon|postmaster)(@|$)/i;

/** Subjects of failure notices of mail servers; each from the start of the subject. */
const FAILURE_SUBJECT = new RegExp(
  `^(?:${[
    'undelivered mail returned to sender',
    'undeliverable( mail|ed mail| message|:)',
    'undelivered:',
    'delivery status notification( |$)',
    '(mail|message) delivery (failed|failure|failed: returning message to sender|status report)',
    'delivery (failure|has failed|failed|notification: delivery has failed|report \\(failure\\)|problem)',
    'mail delivery (system|subsystem|problem)',
    'returned mail(:|$)',
    'returned to sender',
    'failure notice$',
    'failure delivery',
    'mail system error - returned mail',
    'mail could not be delivered',
    'message (could not be delivered|undeliverable)',
    'non[- ]delivery (report|notification|receipt)',
    'warning: (could not send message|message .* delayed)',
    'unzustellbar(:|e)',
    'unzustellbare nachricht',
    'zustellung fehlgeschlagen',
    'non remis( ?:|$)',
    'non distribuable( ?:|$)',
    'échec de (la )?(remise|distribution)',
    'no se puede entregar(:|$)',
    'no entregado(:|$)',
    'mensaje no entregado',
    'impossibile recapitare(:|$)',
    'mancato recapito',
    'não é possível entregar(:|$)',
    'onbestelbaar(:|$)',
    'niedostarczalne(:|$)',
    'недоставлено(:|$)',
    '无法送达',
    '未送达',
    '系统退信',
    '配信不能',
  ].join('|')})`,
  'iu',
);

/** Actions of recipients whom the mail reached: not a bounce. */
const DELIVERED = /^(delivered|relayed|expanded)$/;

/** The report of a bounce; null when the mail is not a bounce. */
export function readBounce(facts: BounceFacts): BounceReport | null {
  if (!isBounce(facts)) return null;
  const status = facts.parts.filter((part) => DELIVERY_STATUS.test(part.mime)).flatMap((part) => readReport(part.text));
  if (status.length > 0 && status.every(({ action }) => action !== null && DELIVERED.test(action))) return null;
  const recipients = recipientsOf(facts, status);
  const [first] = recipients;
  return {
    recipient: first?.address ?? null,
    action: first?.action ?? null,
    status: first?.status ?? null,
    diagnostic: first?.diagnostic ?? null,
    recipients: recipients.filter(({ address }) => address !== null),
    messageIds: originalMessageIds(facts),
  };
}

/**
 * The recipients of the delivery-status parts, else of X-Failed-Recipients, else of the text, else the original's only
 * recipient. The text fills gaps of the report. Failed recipients come first.
 */
function recipientsOf(facts: BounceFacts, status: readonly ReportedRecipient[]): ReportedRecipient[] {
  const plain = readPlainReport(facts.bodyPlain, sendersOf(facts));
  const named = status.filter(({ address }) => address !== null);
  const header = facts.failedRecipients.split(',').flatMap((one) => addressOf(one.trim()) ?? []);
  const found = named.length > 0 ? named : header.length > 0 ? header.map((address) => nothingOf(address)) : plain;
  const only = found.length > 0 ? [] : originalRecipients(facts);
  const all = found.length > 0 ? found : [nothingOf(only.length === 1 ? (only[0] ?? null) : null)];
  const shared = status.find(({ address }) => address === null);
  const response = nothingOf(null, responseIn(reportLines(facts.bodyPlain)));
  const isDelay = isDelayText(facts.subject, facts.bodyPlain);
  const isSure = named.length + header.length + plain.length > 0 || response.diagnostic !== null || isDelay;
  const action = isDelay ? 'delayed' : 'failed';
  const filled = all.slice(0, MAX_RECIPIENTS).map((one) => {
    const same = plain.find(({ address }) => address?.toLowerCase() === one.address?.toLowerCase());
    const other = same ?? (all.length === 1 ? plain[0] : undefined);
    return withGaps(one, [shared, other, response, { ...nothingOf(null), action: isSure ? action : null }]);
  });
  const rank = ({ action }: ReportedRecipient) => (action === 'failed' ? 0 : action === 'delayed' ? 1 : 2);
  return filled.sort((a, b) => rank(a) - rank(b));
}

function nothingOf(address: string | null, diagnostic: string | null = null): ReportedRecipient {
  return { address, action: null, status: null, diagnostic };
}

/** Fills the missing fields of a recipient from the first of `others` that has them. */
function withGaps(one: ReportedRecipient, others: readonly (ReportedRecipient | undefined)[]): ReportedRecipient {
  const sources = [one, ...others.filter((other) => other !== undefined)];
  const first = (key: keyof ReportedRecipient) => sources.find((source) => source[key] !== null)?.[key] ?? null;
  const diagnostic = first('diagnostic');
  const status = first('status') ?? ENHANCED_STATUS.exec(diagnostic ?? '')?.[1] ?? null;
  return { address: one.address, action: first('action'), status, diagnostic };
}

/** The senders of the bounced mail, as far as its copy names them: never a failed recipient. */
function sendersOf(facts: BounceFacts): string[] {
  const from = originalHeaders(facts).flatMap(
    (text) => /^[ \t>]{0,10}from:.{0,300}?<?([^\s<>"@]{1,250}@[^\s<>"]{1,255})/im.exec(text)?.[1] ?? [],
  );
  return [...from, ...(facts.to ?? [])].filter((address) => address !== '');
}

function originalRecipients(facts: BounceFacts): string[] {
  for (const text of originalHeaders(facts)) {
    const found = [...new Set(recipientsIn(text).map((address) => address.toLowerCase()))];
    if (found.length > 0) return found;
  }
  return [];
}

/** The headers of the bounced mail, from the attachment, else from the copy in the text. */
function originalHeaders(facts: BounceFacts): string[] {
  const attached = facts.parts.filter((part) => ORIGINAL.test(part.mime)).map((part) => headerOf(part.text));
  return [...attached, ...(quotesMail(facts.bodyPlain) ? [facts.bodyPlain.slice(0, 64 * 1024)] : [])];
}

/**
 * In order: a complaint is not a bounce; a delivery report is; a read receipt is not; X-Failed-Recipients, or a sender
 * whose local part is exactly mailer-daemon or postmaster, makes it one; an automatic reply is not, unless its text is a
 * report (Exim and others mark their bounces so); then Return-Path decides; last, the subject of a failure notice or a null
 * sender makes it one, with a text that has the form of a report or quotes the mail.
 */
function isBounce(facts: BounceFacts): boolean {
  const declared = declaresBounce(facts);
  if (declared !== null) return declared;
  const isReport = () => isReportText(facts.bodyPlain, facts.to);
  const hasSubject = FAILURE_SUBJECT.test(facts.subject.trim());
  if (isBounceSender(facts.from)) return !facts.autoReplied || isReport();
  if (facts.autoReplied) return hasSubject && isNullSender(facts.returnPath) && isReport();
  if (isBounceSender(facts.returnPath.trim().replace(/^<|>.*$/g, ''))) return !facts.autoSubmitted || isReport();
  return hasSubject ? isReport() || (isNullSender(facts.returnPath) && quotesOriginal(facts)) : isUnnamedReport(facts);
}

/** Whether parts and fields made for reports declare a bounce; null when undecided. */
function declaresBounce({ contentType, parts, failedRecipients, from, subject }: BounceFacts): boolean | null {
  const type = reportTypeOf(contentType);
  const has = (mime: string): boolean => parts.some((part) => part.mime === mime);
  if (type === 'feedback-report' || has('message/feedback-report')) return false;
  if (type === 'delivery-status' || parts.some((part) => DELIVERY_STATUS.test(part.mime))) return true;
  if (type === 'disposition-notification' || has('message/disposition-notification')) return false;
  // an aggregate report of DMARC (RFC 7489 7.2.1.1), which servers send as postmaster
  if (/\breport domain:.*\bsubmitter:/i.test(subject)) return false;
  return failedRecipients !== '' || /^mailer-daemon(@|$)/i.test(from.trim()) ? true : null;
}

/** A report without such a subject: from a null sender, or from an address that programs use. */
function isUnnamedReport(facts: BounceFacts): boolean {
  if (!isNullSender(facts.returnPath) && !LIKE_BOUNCE_SENDER.test(facts.from)) return false;
  const isAnyProgram = !isNullSender(facts.returnPath) && /^no-?reply/i.test(facts.from);
  return isReportText(facts.bodyPlain, facts.to) && (!isAnyProgram || quotesOriginal(facts));
}

function quotesOriginal({ parts, bodyPlain }: BounceFacts): boolean {
  return parts.some((part) => ORIGINAL.test(part.mime)) || quotesMail(bodyPlain);
}

/** Senders of bounces besides those that RFC 5321 and 2142 name. */
const LIKE_BOUNCE_SENDER = /^(post[_-]?master|mail[_-]?daemon|mdaemon|mail[_-]?delivery|no-?reply)(@|$)/i;

function isNullSender(returnPath: string): boolean {
  return /^<\s*>$/.test(returnPath.trim());
}

function reportTypeOf(contentType: string): string | null {
  return /report-type\s*=\s*"?([\w-]+)/i.exec(contentType)?.[1]?.toLowerCase() ?? null;
}

/** Whether a part of this media type is a delivery report (RFC 3464, RFC 6533). */
export function isDeliveryStatus(mime: string): boolean {
  return DELIVERY_STATUS.test(mime);
}

/** Whether an address sends bounces: its local part is exactly mailer-daemon or postmaster. */
export function isBounceSender(address: string): boolean {
  return BOUNCE_SENDER.test(address.trim());
}

/** A mail's Message-ID, or its previous one where a relay replaced it. */
const MESSAGE_ID =
  /^[ \t>]{0,50}(?:X-(?:[a-z]+-){0,3}Original-)?Message-ID[ \t]{0,9}:[ \t]{0,50}\r?\n?[ \t]{0,50}(<[^<>\n]{1,998}>)/gim;
const MAX_IDS = 10;

/**
 * Message-IDs of the bounced mail, the likeliest first: from the attached original, the report, a copy of the original's
 * header in the text, the mail that the notice replies to.
 */
function originalMessageIds(facts: BounceFacts): string[] {
  const attached = facts.parts.filter((part) => ORIGINAL.test(part.mime)).map((part) => headerOf(part.text));
  const status = facts.parts.filter((part) => DELIVERY_STATUS.test(part.mime)).map((part) => part.text);
  const quoted = facts.bodyPlain.slice(0, 256 * 1024);
  const ids = [...attached, ...status, quoted].flatMap((text) =>
    [...text.matchAll(MESSAGE_ID)].slice(0, MAX_IDS).flatMap(([, value]) => readMessageId(value ?? '') ?? []),
  );
  const repliedTo = [...readMessageIds(facts.inReplyTo.join(' ')).slice(0, 1), ...facts.references.slice(-1)];
  return [...new Set([...ids, ...repliedTo])].slice(0, MAX_IDS);
}

/** The Message-IDs of the attached original, with angle brackets. */
export function attachedMessageIds(parts: BounceFacts['parts']): string[] {
  const attached = parts.filter((part) => ORIGINAL.test(part.mime)).map((part) => headerOf(part.text));
  const ids = attached.flatMap((text) =>
    [...text.matchAll(MESSAGE_ID)].flatMap(([, id]) => readMessageId(id ?? '') ?? []),
  );
  return [...new Set(ids)].slice(0, MAX_IDS);
}

function headerOf(message: string): string {
  const end = /\r?\n\r?\n/.exec(message.trimStart());
  return end ? message.trimStart().slice(0, end.index) : message;
}

/** Reads a delivery-status part (RFC 3464 2): its recipients in order; one without an address if none has one. */
export function readReport(text: string): ReportedRecipient[] {
  const groups = text
    .replace(/\r\n?/g, '\n')
    .split(/\n[ \t]*\n/)
    .map(fieldsOf)
    .filter((fields) => fields.has('final-recipient') || fields.has('original-recipient') || fields.has('action'));
  const all = groups.slice(0, MAX_RECIPIENTS).map((group) => {
    const diagnostic = typed(group.get('diagnostic-code'));
    return {
      // The address that the sender wrote, rather than the one that it was forwarded to.
      address: addressOf(group.get('original-recipient')) ?? addressOf(group.get('final-recipient')),
      action:
        /^(failed|delayed|delivered|relayed|expanded)\b/i.exec(group.get('action') ?? '')?.[1]?.toLowerCase() ?? null,
      status:
        ENHANCED_STATUS.exec(group.get('status') ?? '')?.[1] ?? ENHANCED_STATUS.exec(diagnostic ?? '')?.[1] ?? null,
      diagnostic,
    };
  });
  const named = all.filter(({ address }) => address !== null);
  return named.length > 0 ? named : all.slice(0, 1);
}

function fieldsOf(group: string): Map<string, string> {
  const fields = new Map<string, string>();
  for (const line of group.replace(/\n[ \t]+/g, ' ').split('\n')) {
    const colon = line.indexOf(':');
    const key = line.slice(0, Math.max(colon, 0)).trim().toLowerCase();
    if (key !== '' && !fields.has(key)) fields.set(key, line.slice(colon + 1).trim());
  }
  return fields;
}

/** `rfc822; a@b (Bob)` → `a@b`, and the escapes of RFC 6533 as what they stand for; null without an address. */
function addressOf(value: string | undefined): string | null {
  const text = typed(value)
    ?.replace(COMMENT, (found) => (found.startsWith('"') ? found : ''))
    .trim()
    .replace(/^(?:[<']|"(?![^"]*"@))+|[>"']+$/g, '')
    .trim();
  const address = /^\s*utf-8\s*;/i.test(value ?? '') ? text?.replace(ESCAPED, unescaped) : text;
  return address?.includes('@') ? address.slice(0, 320) : null;
}

/** A comment (RFC 5322 3.2.2), or a quoted string, in which parentheses begin none. */
const COMMENT = /"(?:[^"\\]|\\.){0,300}"|\((?:[^()\\]|\\.|\([^()]{0,300}\)){0,300}\)/g;
/** A character beyond ASCII in an address of the type utf-8 (RFC 6533 3). */
const ESCAPED = /\\x\{([0-9a-f]{1,6})\}/gi;

function unescaped(found: string, hex: string): string {
  const code = Number.parseInt(hex, 16);
  return code <= 0x10ffff ? String.fromCodePoint(code) : found;
}

/** `type; text` → text. */
function typed(value: string | undefined): string | null {
  return clean(value?.replace(/^[a-z0-9._-]+\s*;\s*/i, ''));
}
