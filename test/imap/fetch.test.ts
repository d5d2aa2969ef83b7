import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { fetchChanges, fetchMetaOf } from '../../src/imap/fetch.ts';
import { selectFolder } from '../../src/imap/select.ts';
import type { ImapSession } from '../../src/imap/session.ts';
import { FakeImap, PLAIN } from '../helpers/fakes/fake-imap.ts';
import { openTestSession } from '../helpers/product/mail-session.ts';
import { mailText } from '../helpers/product/mail-text.ts';

let server: FakeImap;
let session: ImapSession;

beforeEach(async () => {
  server = await new FakeImap({ capabilities: `${PLAIN} CONDSTORE QRESYNC` }).listen();
  server.add('INBOX', mailText());
  session = await openTestSession({ user: 'paula@example.test', password: 'secret', imapPort: server.port });
  await selectFolder(session, 'INBOX');
});
afterEach(async () => {
  await session.end();
  await server.close();
});

test('a folder in which every second of 280,000 messages was expunged reports them all', async () => {
  const uids = Array.from({ length: 140_000 }, (_, index) => 100_000 + 2 * index);
  server.script.answer = (text, { name }) =>
    name === 'UID FETCH' && text.includes(' OK') ? `* VANISHED (EARLIER) ${uids.join(',')}\r\n${text}` : text;
  const { vanished, flags } = await fetchChanges(session, 0n);
  expect(vanished).toHaveLength(uids.length);
  expect(vanished?.at(-1)).toEqual({ from: uids.at(-1), to: uids.at(-1) });
  expect(flags).toMatchObject([{ uid: 1, seen: false }]);
});

test('header fields of any length are read, and a Message-ID without what cannot be stored', async () => {
  const id = '<a\0b@elsewhere.test>';
  server.append('INBOX', mailText({ messageId: id, subject: 's' }));
  server.append(
    'INBOX',
    Buffer.from(`Subject: x\r\nFrom: ${`${'a'.repeat(900)}\r\n `.repeat(9_000)}\r\nMessage-ID:\r\n <c@d>\r\n\r\n`),
  );
  await selectFolder(session, 'INBOX');
  const metas = await fetchMetaOf(session, [2, 3]);
  expect(metas.map(({ messageId }) => messageId)).toEqual(['<ab@elsewhere.test>', '<c@d>']);
});
