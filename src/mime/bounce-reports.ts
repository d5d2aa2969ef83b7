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
 * it), of Exim (the address, indented, and the reason further indented) and of those that name address and answer in
 * one line.
 */
export function readPlainReport(body: string): ReportFacts {
  const text = body.slice(0, 64 * 1024).replace(/\r\n?/g, '\n');
  const match =
    new RegExp(`^<(${ADDRESS})>:\\n((?:[^\\n]+\\n?){1,6})`, 'm').exec(text) ??
    new RegExp(`^ {1,4}<?(${ADDRESS})>?\\n((?: {2,}[^\\n]+\\n?){1,6})`, 'm').exec(text) ??
    new RegExp(`^<(${ADDRESS})>(?:: | \\()([^\\n]+(?:\\n[ \\t]+[^\\n]+){0,6})`, 'm').exec(text);
  const diagnostic = clean(match?.[2]) ?? answerIn(text);
  return {
    recipient: match?.[1] ?? null,
    action: null,
    status: ENHANCED_STATUS.exec(diagnostic ?? '')?.[1] ?? null,
    diagnostic,
  };
}

/** A line that quotes the answer of an SMTP server: `550 5.1.1 …`. */
function answerIn(text: string): string | null {
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
