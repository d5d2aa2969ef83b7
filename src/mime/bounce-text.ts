/*
 * Reads the text of a non-delivery notice that has no delivery-status part. Mail is hostile: each expression is matched
 * against one line of bounded length.
 */

/** One recipient of a delivery report. */
export interface ReportedRecipient {
  address: string | null;
  /** failed, delayed, delivered, relayed or expanded */
  action: string | null;
  /** enhanced status code, RFC 3463 */
  status: string | null;
  diagnostic: string | null;
}

const MAX_TEXT = 64 * 1024;
const MAX_LINES = 400;
const MAX_LINE = 1000;
const MAX_DIAGNOSTIC = 2000;
export const MAX_RECIPIENTS = 100;
export const ENHANCED_STATUS = /(?<![\d.])([245]\.\d{1,3}\.\d{1,3})(?![\d.]*\.\d)/;
const ADDRESS = String.raw`[^\s<>"(),:;\[\]\u3000-\u303f\uff00-\uff0f]{1,250}@[a-z0-9\u0080-\uffff_](?:[a-z0-9\u0080-\u2fff\u3041-\ufeff_-]|\.(?=[a-z0-9\u0080-\uffff])){0,250}(?![a-z0-9_-]|\.[a-z0-9\u0080-\uffff])`;

/** The line that begins the copy of the bounced mail. */
const ORIGINAL_BELOW =
  /^[\s>*=_-]{0,80}((this|below|attached|included) (is|line|below) .{0,40}(copy|header)|.{0,30}(original|returned|unsent) (message|mail)( (follows|header.*|text|attached|is.*))?[\s:*=_.-]{0,80}$|message (headers?|text|contents?) follows?|the header of the original|(original|returned) message headers?|.{0,10}message text follows|.{0,20}headers? of the (original )?message|return-path:|received: ?from|received: \()/i;

/** The lines of a report before the copy of the bounced mail. */
export function reportLines(body: string): string[] {
  const lines = body
    .slice(0, MAX_TEXT)
    .split(/\r\n?|\n/, MAX_LINES)
    .map((line) => line.slice(0, MAX_LINE).trimEnd());
  const end = lines.findIndex((line, index) => index > 0 && ORIGINAL_BELOW.test(line));
  return end < 0 ? lines : lines.slice(0, end);
}

const AT_START = new RegExp(
  String.raw`^[\s>*"'•-]{0,20}(?:smtp:|mailto:|rfc822;\s*)?<?"?(${ADDRESS})"?>?(?:$|\s*(?:<(?:mailto:)?[^<>\s]{1,300}>)?\s*(?:[:;,.(\[-]|\.\.\.|\.{0,3}$|on |invalid |unknown |-> |user |does |failed|error|was |is |could |said))`,
  'i',
);
const LABELLED = new RegExp(
  String.raw`(?:recipients?(?: address)?(?:\(s\))?|final-recipient: *rfc822;|to (?:the )?following (?:recipient|address)s?|deliver(?:ed|ing|y)?(?: (?:your|the|this))?(?: (?:message|mail|e-?mail))? ?(?:to|for)|delivery (?:to|failed)|unknown (?:user|recipient)|user unknown|no such user|address(?:es)?|account|mailbox|permanent errors?|could not be sent to|not reach|sent to|invalid user|failed to|rejected|bounced|宛先|送信先)\s*(?:[:=]|to|for|is)?\s*["'<(]{0,2}(${ADDRESS})[">')]{0,2}`,
  'i',
);
const RCPT = new RegExp(String.raw`rcpt to: ?<(${ADDRESS})>`, 'i');
const BRACKETED = new RegExp(String.raw`<(${ADDRESS})>`, 'i');
/** A response of an SMTP server: `550 5.1.1 …`, `550-…`, `#5.1.1`. */
const RESPONSE =
  /(?:^|[\s:>(#"'[])[45]\d\d[ -](?:#?[45]\.\d{1,3}\.\d{1,3}\b|[^\d\s])|#[45]\.\d{1,3}\.\d{1,3}\b|\b[45]\.\d{1,2}\.\d{1,3} /;
const NOT_RECIPIENT = /^(mailer-daemon|postmaster|abuse|support|help(desk)?|no-?reply|hostmaster|webmaster)@/i;
const SENDER_LINE =
  /^[\s>*]*(from|sender|reply-to|return-path|errors-to|mail from|original sender|message-id|references|in-reply-to|x-[\w-]+|subject|reported-by)\b\s*[:<]/i;
const ADVICE =
  /\b(contact|write to|ask|help|assistance|questions?|include this|send mail to|please (e-?mail|forward)|envelope.from|from user|on behalf of|visit)\b/i;

/** An address in the form in which recipients are compared. */
const known = (address: string): string => address.toLowerCase();

/**
 * The failed recipients that a text names, in order: from lines that begin with an address, else from addresses after a
 * label, else from the commands to the server. Omits `senders`.
 */
export function readPlainReport(body: string, senders: readonly string[] = []): ReportedRecipient[] {
  const lines = reportLines(body);
  const own = new Set(senders.map(known));
  for (const pattern of [AT_START, LABELLED, RCPT]) {
    const found = findRecipients(lines, pattern, own);
    if (found.length > 0) return found;
  }
  const answered = lines.filter((line) => RESPONSE.test(line));
  return findRecipients(answered, BRACKETED, own);
}

/** The recipient that a line names; null when it names a sender or a contact for help. */
function addressIn(line: string, pattern: RegExp): string | null {
  if (!line.includes('@') || SENDER_LINE.test(line)) return null;
  const address = pattern.exec(line)?.[1]?.replace(/^['=]+|[.'_]+$/g, '');
  if (!address) return null;
  return pattern !== RCPT && (NOT_RECIPIENT.test(address) || ADVICE.test(line)) ? null : address;
}

function findRecipients(lines: readonly string[], pattern: RegExp, own: ReadonlySet<string>): ReportedRecipient[] {
  const found = new Map<string, ReportedRecipient>();
  for (const [index, line] of lines.entries()) {
    const address = found.size < MAX_RECIPIENTS ? addressIn(line, pattern) : null;
    if (address === null || own.has(known(address)) || found.has(known(address))) continue;
    const diagnostic = diagnosticOf(lines, index, address);
    const status = ENHANCED_STATUS.exec(diagnostic ?? '')?.[1] ?? null;
    found.set(known(address), { address, action: null, status, diagnostic });
  }
  return [...found.values()];
}

/** The reason for a recipient: the rest of its line, else the lines below it, else any response. */
function diagnosticOf(lines: readonly string[], index: number, address: string): string | null {
  const line = lines[index] ?? '';
  const rest = line.slice(line.lastIndexOf(address) + address.length).replace(/^[">)\]]*\s*[:;,.([-]*\s*/, '');
  const below: string[] = [];
  for (const next of lines.slice(index + 1, index + 8)) {
    if (next.trim() === '' || (next.includes('@') && AT_START.test(next) && !RESPONSE.test(next))) break;
    below.push(next.trim());
  }
  const reason = clean([rest.replace(/[\])]$/, ''), ...below].join(' '));
  if (reason !== null && /\p{L}/u.test(reason)) return reason;
  return responseIn(lines);
}

/** A line that quotes the response of an SMTP server. */
export function responseIn(lines: readonly string[]): string | null {
  const line =
    lines.find((one) => /\b[45]\d\d[ -]#?[245]\.\d{1,3}\.\d{1,3}\b/.test(one)) ??
    lines.find((one) => RESPONSE.test(one));
  return clean(line);
}

/** Whether a text has the form of a report: it names failed recipients, and reports a failure or quotes a server. */
export function isReportText(body: string, own: readonly string[] = []): boolean {
  const lines = reportLines(body);
  const saysSo = lines.some((line) => UNDELIVERED.test(line)) || /^[\s\S]{0,2000}送信できません/.test(body);
  // a number alone may be a price
  const answered = lines.some((line) => RESPONSE.test(line) && (saysSo ? /\b[45]\d\d[ -]/ : ENHANCED).test(line));
  if (!saysSo && !answered) return false;
  return (saysSo && answered) || readPlainReport(body, own).length > 0;
}

const ENHANCED = /\b[45]\d\d[ -]#?[45]\.\d{1,3}\.\d{1,3}\b/;

const UNDELIVERED =
  /(could not|cannot|can't|unable to|was not|wasn't able to|has not been|failed to) (be )?(deliver|reach|sen[dt])|(deliver(y|ing)|message|mail) .{0,60}(failed|failure|error|delayed|undeliverable|rejected|returned)|error .{0,40}(deliver|sending)|did not reach|permanent (fatal )?(error|failure)|returned (to sender|mail)|undeliver|invalid user address|unknown user|user unknown|no such user|nicht zugestellt|unzustellbar|non .{0,10}(remis|distribu)|no .{0,20}entreg/i;

/** Whether a text says that delivery attempts continue. */
export function isDelayText(subject: string, body: string): boolean {
  const lines = reportLines(body);
  const delayed =
    /\b(delayed|delay\)|still being retried|warning: could not send|not yet been delivered)/i.test(subject) ||
    lines.some((line) =>
      /warning message only|has been delayed|delivery (is|was) delayed|will (be retried|continue to (be )?(try|retried|attempt))|still (being )?(trying|retried)|not yet been delivered/i.test(
        line,
      ),
    );
  return delayed && !lines.some((line) => /permanent (fatal )?(error|failure)|given up|no longer/i.test(line));
}

const MAIL_HEADER = /^[\s>]{0,10}(from|to|subject|date|message-id|received|return-path):/i;

/** Whether a text contains the header of another mail. */
export function quotesMail(body: string): boolean {
  const lines = body.slice(0, MAX_TEXT).split(/\r\n?|\n/, 2000);
  return new Set(lines.flatMap((line) => MAIL_HEADER.exec(line)?.[1]?.toLowerCase() ?? [])).size >= 3;
}

/** The To addresses of a mail header within a text; none unless each line of the field can be read. */
export function recipientsIn(header: string): string[] {
  const field =
    /^[ \t>]{0,10}to:[ \t]*((?:[^\r\n]{0,1000})(?:\r?\n[ \t]+[^\r\n]{1,1000}){0,20})/im.exec(header)?.[1] ?? '';
  return [...field.matchAll(new RegExp(ADDRESS, 'gi'))].map(([address]) => address).slice(0, MAX_RECIPIENTS);
}

/** One line of a text, at most 2,000 characters; null when it is empty. */
export function clean(value: string | undefined): string | null {
  return value?.replace(/\s+/g, ' ').trim().slice(0, MAX_DIAGNOSTIC) || null;
}
