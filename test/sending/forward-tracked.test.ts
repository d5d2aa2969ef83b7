import { Readable } from 'node:stream';
import { tmpdir } from 'node:os';
import { expect, test } from '@jest/globals';
import { simpleParser } from 'mailparser';
import { trackMessage } from '../../src/mime/tracking.ts';
import { compose } from '../../src/mime/write/compose.ts';
import { messageOf } from '../../src/sending/compose.ts';
import type { Storage } from '../../src/storage/storage.ts';
import { file, GIVEN, outgoingMessage } from '../mime/outgoing-messages.ts';

/** Forwarding an email that was sent with tracking, whose copy in Sent the provider filed as it was delivered. */

const HTML = '<p>Hello <a href="https://shop.test/?a=1&amp;b=2">shop</a></p><img src="cid:logo">';
const LOGO = file('PNG', { filename: 'logo.png', content_type: 'image/png', cid: 'logo' });
const TRACKING = { trackingId: 'trk_1', opens: true, links: true, baseUrl: 'https://api.test' };

async function forwarded(as: 'inline' | 'attachment', isTracked: boolean) {
  const original = outgoingMessage({ html: HTML, subject: 'Offer', attachments: [LOGO] });
  const { message, links } = trackMessage(original, TRACKING);
  const source = await compose(isTracked ? message : original, { keepBcc: true });
  const storage = { get: () => Promise.resolve(Readable.from([source])) } as unknown as Storage;
  const input = { to: [{ email: 'third@x.test' }], plain_text: 'See below.', forward_as: as };
  const files = { count: 1, bytes: 3 };
  const about = { emailId: 'email_1', messageId: '<m@x.test>', references: [], subject: 'Offer', size: 9, files };
  const outgoing = { input, forwarded: { ...about, storageKey: 'key', tracked: { trackingId: 'trk_1', links } } };
  const result = await messageOf({ storage, tempDir: tmpdir() }, outgoing, { owner: GIVEN.from, ...GIVEN });
  return { result, source };
}

test('inline, it has the links of its author and no pixel', async () => {
  const { result } = await forwarded('inline', true);
  expect(result.html).toContain(HTML);
  expect(result.html).not.toContain('trk_1');
  expect(result.attachments.map(({ filename, cid }) => [filename, cid])).toEqual([['logo.png', 'logo']]);
});

test('as a file, it is the email without tracking', async () => {
  const { result } = await forwarded('attachment', true);
  const read = await simpleParser(result.attachments[0]?.content as Buffer, { skipImageLinks: true });
  expect(read.html).toBe(HTML);
  expect(read.attachments.map(({ filename, cid }) => [filename, cid])).toEqual([['logo.png', 'logo']]);
  expect([read.subject, read.messageId, read.date]).toEqual(['Offer', GIVEN.messageId, GIVEN.date]);
});

test('as a file, a copy without tracking is unchanged to the byte', async () => {
  const { result, source } = await forwarded('attachment', false);
  expect(result.attachments[0]?.content).toEqual(source);
});
