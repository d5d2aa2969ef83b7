import { NOBODY } from './addresses.ts';
import { splitHeader } from './headers.ts';
import type { ParsedMail } from './parsed-mail.ts';
import { readStart } from './read-start.ts';
import { storable } from './storable.ts';

const MINIMAL_BYTES = 256 * 1024;

/** The last resort: the header as it stands, undecoded and cut at 256 KB. Linear, so that it may run here. */
export function minimalMail(source: Buffer | { path: string }): ParsedMail {
  const start = readStart(source, MINIMAL_BYTES);
  const headers = splitHeader(storable(start.toString('utf8'))).map(({ name, raw }) => ({ name, value: raw }));
  const value = (key: string): string => headers.find(({ name }) => name.toLowerCase() === key)?.value ?? '';
  const subject = value('subject').slice(0, 1000);
  return {
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
    searchText: ` ${subject.toLowerCase()} `,
    searchSubject: ` ${subject.toLowerCase()} `,
    baseSubject: '',
    isReplySubject: false,
    autoSubmitted: false,
    isPartial: true,
    tempDir: null,
  };
}
