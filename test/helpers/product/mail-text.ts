import { randomBytes } from 'node:crypto';

export interface MailFields {
  from?: string;
  to?: string;
  cc?: string;
  subject?: string;
  text?: string;
  html?: string;
  messageId?: string;
  inReplyTo?: string;
  references?: string;
  date?: Date;
  headers?: Record<string, string>;
  attachments?: { name: string; type: string; content: Buffer; cid?: string }[];
}

/** A unique Message-ID, with its angle brackets. */
export function newMessageId(): string {
  return `<${randomBytes(12).toString('hex')}@example.test>`;
}

/** Writes a message of RFC 5322 with CRLF line ends; missing fields get a plain value. */
export function mailText(fields: MailFields = {}): Buffer {
  const headers: [string, string | undefined][] = [
    ['From', fields.from ?? 'Ada Writer <ada@elsewhere.test>'],
    ['To', fields.to ?? 'reader@example.test'],
    ['Cc', fields.cc],
    ['Subject', encodeWord(fields.subject ?? 'A mail')],
    ['Message-ID', fields.messageId ?? newMessageId()],
    ['In-Reply-To', fields.inReplyTo],
    ['References', fields.references],
    ['Date', (fields.date ?? new Date()).toUTCString().replace('GMT', '+0000')],
    ...Object.entries(fields.headers ?? {}),
    ['MIME-Version', '1.0'],
  ];
  const head = headers.flatMap(([name, value]) => (value === undefined ? [] : [`${name}: ${value}`]));
  return Buffer.from(`${head.join('\r\n')}\r\n${body(fields)}`, 'utf8');
}

function body(fields: MailFields): string {
  const texts = [
    ...(fields.text !== undefined || fields.html === undefined
      ? [part('text/plain; charset=utf-8', base64(Buffer.from(fields.text ?? 'Hello.\r\n')))]
      : []),
    ...(fields.html === undefined ? [] : [part('text/html; charset=utf-8', base64(Buffer.from(fields.html)))]),
  ];
  const text = texts.length > 1 ? multipart('alternative', texts) : (texts[0] ?? '');
  if (!fields.attachments?.length) return text;
  return multipart('mixed', [
    text,
    ...fields.attachments.map(({ name, type, content, cid }) =>
      part(
        `${type}; name="${name}"`,
        base64(content),
        cid
          ? `Content-Disposition: inline; filename="${name}"\r\nContent-ID: <${cid}>\r\n`
          : `Content-Disposition: attachment; filename="${name}"\r\n`,
      ),
    ),
  ]);
}

function part(type: string, content: string, more = ''): string {
  return `Content-Type: ${type}\r\n${more}Content-Transfer-Encoding: base64\r\n\r\n${content}`;
}

function multipart(kind: string, parts: string[]): string {
  const boundary = `b-${randomBytes(8).toString('hex')}`;
  const inner = parts.map((one) => `--${boundary}\r\n${one}\r\n`).join('');
  return `Content-Type: multipart/${kind}; boundary="${boundary}"\r\n\r\n${inner}--${boundary}--\r\n`;
}

function base64(content: Buffer): string {
  return `${content.toString('base64').replace(/.{76}/g, '$&\r\n')}\r\n`;
}

function encodeWord(text: string): string {
  return /^[\x20-\x7e]*$/.test(text) ? text : `=?utf-8?B?${Buffer.from(text).toString('base64')}?=`;
}
