import { readMessageId, readMessageIds } from './message-ids.ts';

/** What a delivery report says (RFC 3464); null where it does not. */
export interface BounceReport {
  recipient: string | null;
  /** failed, delayed, delivered, relayed or expanded */
  action: string | null;
  /** enhanced status code, RFC 3463 */
  status: string | null;
  diagnostic: string | null;
  /** possible Message-IDs of the mail that bounced, the likeliest first, with angle brackets */
  messageIds: string[];
}

/** What decides whether a mail is a bounce: all decoded, header values '' when missing. */
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
  autoReplied: boolean;
  inReplyTo: readonly string[];
  references: readonly string[];
  bodyPlain: string;
  /** the message's parts that are not body text, with the first 64 KB of their content as text */
  parts: readonly { mime: string; text: string }[];
}

const DELIVERY_STATUS = /^message\/(global-)?delivery-status$/;
const ORIGINAL = /^(message\/(rfc822|global)|text\/rfc822-headers|message\/global-headers)$/;
const BOUNCE_SENDER = /^(mailer-daemon|postmaster)(@|$)/i;

/** Subjects that mail servers give to failure notices; each from the start of the subject. */
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

/**
 * What a bounce reports; null when the mail is no bounce (QUALITY "Bounces"). A bounce is no feedback report, and has a
 * delivery status part or report type, or a sender whose local part is exactly mailer-daemon or postmaster, or
 * X-Failed-Recipients, or the subject of a failure notice without being an auto-reply.
 */
export function readBounce(facts: BounceFacts): BounceReport | null {
  if (!isBounce(facts)) return null;
  const status = facts.parts.find((part) => DELIVERY_STATUS.test(part.mime))?.text;
  const plain = readPlainReport(facts.bodyPlain);
  const report: ReportFacts = status === undefined ? plain : withGaps(readReport(status), plain);
  const failed = facts.failedRecipients.split(',')[0]?.trim().replace(/^<|>$/g, '') || null;
  const recipient = report.recipient ?? failed;
  return {
    recipient,
    action: report.action ?? (failed !== null || report.status?.startsWith('5') ? 'failed' : null),
    status: report.status,
    diagnostic: report.diagnostic,
    messageIds: originalMessageIds(facts),
  };
}

function isBounce(facts: BounceFacts): boolean {
  const reportType = /report-type\s*=\s*"?([\w-]+)/i.exec(facts.contentType)?.[1]?.toLowerCase();
  if (reportType === 'feedback-report' || facts.parts.some((part) => part.mime === 'message/feedback-report'))
    return false;
  return (
    reportType === 'delivery-status' ||
    facts.parts.some((part) => DELIVERY_STATUS.test(part.mime)) ||
    isBounceSender(facts.from) ||
    isBounceSender(facts.returnPath.trim().replace(/^</, '').replace(/>.*$/, '')) ||
    facts.failedRecipients !== '' ||
    (FAILURE_SUBJECT.test(facts.subject.trim()) && !facts.autoReplied)
  );
}

/** Whether an address is one that bounces come from: the local part is exactly mailer-daemon or postmaster. */
export function isBounceSender(address: string): boolean {
  return BOUNCE_SENDER.test(address.trim());
}

/** A mail's Message-ID, or the one that it had before a relay gave it another. */
const MESSAGE_ID =
  /^[ \t>]{0,50}(?:X-(?:[a-z]+-){0,3}Original-)?Message-ID[ \t]{0,9}:[ \t]{0,50}\r?\n?[ \t]{0,50}(<[^<>\n]{1,998}>)/gim;
const MAX_IDS = 10;

/**
 * In the order of their worth: the attached original, the report itself, a copy of the original's header in the text,
 * the mail that the notice replies to.
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

function headerOf(message: string): string {
  const end = /\r?\n\r?\n/.exec(message.trimStart());
  return end ? message.trimStart().slice(0, end.index) : message;
}

function withGaps(report: ReportFacts, fallback: ReportFacts): ReportFacts {
  return {
    recipient: report.recipient ?? fallback.recipient,
    action: report.action ?? fallback.action,
    status: report.status ?? fallback.status,
    diagnostic: report.diagnostic ?? fallback.diagnostic,
  };
}

/** What a report says about the first recipient that failed. */
export interface ReportFacts {
  recipient: string | null;
  action: string | null;
  status: string | null;
  diagnostic: string | null;
}

const MAX_DIAGNOSTIC = 2000;
const ENHANCED_STATUS = /\b([245]\.\d{1,3}\.\d{1,3})\b/;
const ADDRESS = '[^\\s<>"(),:;]+@[^\\s<>"(),:;]+';

/** Reads a delivery-status part (RFC 3464 2): the group of the first recipient that failed, else of the first one. */
export function readReport(text: string): ReportFacts {
  const groups = text
    .replace(/\r\n?/g, '\n')
    .split(/\n[ \t]*\n/)
    .map(fieldsOf)
    .filter((fields) => fields.has('final-recipient') || fields.has('original-recipient') || fields.has('action'));
  const group = groups.find((fields) => /^failed\b/i.test(fields.get('action') ?? '')) ?? groups[0];
  if (!group) return { recipient: null, action: null, status: null, diagnostic: null };
  const diagnostic = typed(group.get('diagnostic-code'));
  return {
    // The address that the sender wrote, rather than the one that it was forwarded to.
    recipient: addressOf(group.get('original-recipient')) ?? addressOf(group.get('final-recipient')),
    action: /^[a-z]+/i.exec(group.get('action') ?? '')?.[0].toLowerCase() ?? null,
    status: ENHANCED_STATUS.exec(group.get('status') ?? '')?.[1] ?? ENHANCED_STATUS.exec(diagnostic ?? '')?.[1] ?? null,
    diagnostic,
  };
}

/**
 * Reads the text of a notice that has no delivery-status part: the shapes of qmail (`<a@b>:` and the reason below
 * it), of Exim (the address, indented, and the reason further indented) and of those that name the address and the
 * server's response in one line.
 */
export function readPlainReport(body: string): ReportFacts {
  const text = body.slice(0, 64 * 1024).replace(/\r\n?/g, '\n');
  const match =
    new RegExp(`^<(${ADDRESS})>:\\n((?:[^\\n]+\\n?){1,6})`, 'm').exec(text) ??
    new RegExp(`^ {1,4}<?(${ADDRESS})>?\\n((?: {2,}[^\\n]+\\n?){1,6})`, 'm').exec(text) ??
    new RegExp(`^<(${ADDRESS})>(?:: | \\()([^\\n]+(?:\\n[ \\t]+[^\\n]+){0,6})`, 'm').exec(text);
  const diagnostic = clean(match?.[2]) ?? responseIn(text);
  return {
    recipient: match?.[1] ?? null,
    action: null,
    status: ENHANCED_STATUS.exec(diagnostic ?? '')?.[1] ?? null,
    diagnostic,
  };
}

/** A line that quotes the response of an SMTP server: `550 5.1.1 …`. */
function responseIn(text: string): string | null {
  return clean(/^.{0,200}\b[45]\d\d[ -][245]\.\d{1,3}\.\d{1,3}\b.{0,400}$/m.exec(text)?.[0]);
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

/** `rfc822; a@b` → `a@b`; null for what holds no address. */
function addressOf(value: string | undefined): string | null {
  const address = typed(value)?.replace(/^<|>$/g, '').trim();
  return address?.includes('@') ? address : null;
}

/** `type; text` → text. */
function typed(value: string | undefined): string | null {
  return clean(value?.replace(/^[a-z0-9._-]+\s*;\s*/i, ''));
}

function clean(value: string | undefined): string | null {
  return value?.replace(/\s+/g, ' ').trim().slice(0, MAX_DIAGNOSTIC) || null;
}
