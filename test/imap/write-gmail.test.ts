import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { appendMessage } from '../../src/imap/append.ts';
import { createFolder, deleteFolder, renameFolder } from '../../src/imap/change-folders.ts';
import { expungeMessages } from '../../src/imap/expunge.ts';
import { copyMessages, moveMessages } from '../../src/imap/move.ts';
import { findByMessageId } from '../../src/imap/search.ts';
import { openFolder } from '../../src/imap/select.ts';
import type { ImapSession } from '../../src/imap/session.ts';
import { storeFlags } from '../../src/imap/store.ts';
import { FolderExists, MailError } from '../../src/mail-wire/mail-error.ts';
import { FakeGmail } from '../helpers/fakes/fake-gmail.ts';
import { openTestSession } from '../helpers/product/mail-session.ts';
import { mailText, newMessageId } from '../helpers/product/mail-text.ts';
import { type Mailbox, openMailbox } from '../helpers/product/mailbox.ts';

/** The verbs on a mailbox whose folders are labels; seen by another mail program. */

const ALL = '[Gmail]/All Mail';
const SENT = '[Gmail]/Sent Mail';
const TRASH = '[Gmail]/Trash';
const DRAFTS = '[Gmail]/Drafts';

let server: FakeGmail;
let session: ImapSession;
let box: Mailbox;

const login = () => ({ user: 'gail@gmail.test', password: 'secret', imapPort: server.port, submissionPort: 0 });

beforeEach(async () => {
  server = await new FakeGmail({ appendLimit: 100_000 }).listen();
  session = await openTestSession(login());
  box = await openMailbox(login());
});
afterEach(async () => {
  await session.end();
  await box.close();
  await server.close();
});

/** Delivers a mail to INBOX and answers its X-GM-MSGID. */
function deliver(subject: string): string {
  server.deliver(mailText({ subject }));
  return server.folder('INBOX').messages.at(-1)?.emailId as string;
}

const uidOf = (path: string, id: string) =>
  server.folder(path).messages.find(({ emailId }) => emailId === id)?.uid as number;

/** Subjects and flags as another mail program sees them. */
async function seen(path: string): Promise<string[]> {
  const lock = await box.client.getMailboxLock(path);
  try {
    await box.client.noop();
    if (!box.client.mailbox || box.client.mailbox.exists === 0) return [];
    const rows = await box.client.fetchAll('1:*', { headers: ['subject'], flags: true });
    return rows.map(({ headers, flags }) =>
      [String(headers).split(': ')[1]?.trim(), ...[...(flags ?? [])].sort()].join(' '),
    );
  } finally {
    lock.release();
  }
}

describe('a mail with labels', () => {
  test('gets the target label and loses the one that it is moved from', async () => {
    const id = deliver('one');
    await openFolder(session, 'INBOX');
    const moved = await moveMessages(session, [uidOf('INBOX', id), 77], 'Work');
    expect(moved).toEqual({
      uidValidity: server.folder('Work').uidValidity,
      uids: new Map([[1, uidOf('Work', id)]]),
      missing: [77],
    });
    expect(server.labelsOf(id)).toEqual(['Work', ALL]);
    expect([await seen('INBOX'), await seen('Work'), await seen(ALL)]).toEqual([[], ['one'], ['one']]);
  });

  test('is in both labels when it is copied', async () => {
    const id = deliver('one');
    await openFolder(session, 'INBOX');
    await copyMessages(session, [1], 'Work');
    expect(server.labelsOf(id)).toEqual(['INBOX', 'Work', ALL]);
    await expungeMessages(session, [1]);
    expect(server.labelsOf(id)).toEqual(['Work', ALL]);
  });

  test('has one set of flags', async () => {
    deliver('one');
    await openFolder(session, 'INBOX');
    await copyMessages(session, [1], 'Work');
    const flags = await storeFlags(session, [1], { add: ['\\Seen', '\\Flagged'] });
    expect(flags).toEqual(new Map([[1, new Set(['\\Seen', '\\Flagged'])]]));
    expect([await seen('INBOX'), await seen('Work'), await seen(ALL)]).toEqual(Array(3).fill(['one \\Flagged \\Seen']));
    expect(await seen('[Gmail]/Starred')).toEqual(['one \\Flagged \\Seen']);
    await storeFlags(session, [1], { remove: ['\\Seen', '\\Flagged'] });
    expect([await seen('Work'), await seen('[Gmail]/Starred')]).toEqual([['one'], []]);
  });

  test('loses all labels in Trash, and is restored from there', async () => {
    const id = deliver('one');
    await openFolder(session, 'INBOX');
    await copyMessages(session, [1], 'Work');
    await moveMessages(session, [1], TRASH);
    expect(server.labelsOf(id)).toEqual([TRASH]);
    expect([await seen('Work'), await seen(ALL), await seen(TRASH)]).toEqual([[], [], ['one']]);
    await openFolder(session, TRASH);
    await moveMessages(session, [1], 'INBOX');
    expect(server.labelsOf(id)).toEqual(['INBOX', ALL]);
    await openFolder(session, 'INBOX');
    await moveMessages(session, [uidOf('INBOX', id)], TRASH);
    await openFolder(session, TRASH);
    await expungeMessages(session, [uidOf(TRASH, id)]);
    expect(server.labelsOf(id)).toEqual([]);
  });

  test('stays in All Mail when it is expunged from its last label', async () => {
    const id = deliver('one');
    await openFolder(session, 'INBOX');
    await expungeMessages(session, [1]);
    expect(server.labelsOf(id)).toEqual([ALL]);
  });
});

describe('an appended mail', () => {
  test('is in All Mail too, and is found by its Message-ID', async () => {
    const messageId = newMessageId();
    const where = await appendMessage(session, DRAFTS, mailText({ subject: 'draft', messageId }), {
      flags: ['\\Seen'],
    });
    const [message] = server.folder(DRAFTS).messages;
    expect(where).toEqual({ uidValidity: server.folder(DRAFTS).uidValidity, uid: message?.uid });
    expect(server.labelsOf(message?.emailId as string)).toEqual([ALL, DRAFTS].sort());
    expect([await seen(DRAFTS), await seen(ALL)]).toEqual(Array(2).fill(['draft \\Draft \\Seen']));
    await openFolder(session, ALL);
    expect(await findByMessageId(session, messageId)).toEqual([1]);
  });

  test('over the size limit is rejected, and the session stays usable', async () => {
    const source = mailText({ text: 'x'.repeat(120_000) });
    const error = await appendMessage(session, DRAFTS, source, { flags: [] }).catch((cause: unknown) => cause);
    expect(error).toBeInstanceOf(MailError);
    expect(error).toMatchObject({ code: 'provider_rejected', temporary: false, refused: true });
    expect(server.folder(DRAFTS).messages).toEqual([]);
    await appendMessage(session, DRAFTS, mailText({ subject: 'small' }), { flags: [] });
    expect(await seen(DRAFTS)).toEqual(['small \\Draft']);
  });

  test('is not sent at all when the server announces a limit below its size', async () => {
    await session.end();
    server.capabilities += ' APPENDLIMIT=1000';
    session = await openTestSession(login());
    const error = await appendMessage(session, 'INBOX', mailText({ text: 'x'.repeat(2_000) }), { flags: [] }).catch(
      (e: unknown) => e,
    );
    expect(error).toMatchObject({ code: 'provider_rejected', temporary: false });
    expect(server.count('APPEND')).toBe(0);
  });

  test('may take longer than other commands', async () => {
    const patient = await openTestSession(login(), { silenceMs: 100, idleMs: 20_000 });
    let late: NodeJS.Timeout | undefined;
    server.script.command = (command, client) => {
      if (command.name !== 'APPEND' || late) return false;
      late = setTimeout(() => client.answer(command), 500);
      return true;
    };
    expect(await appendMessage(patient, 'INBOX', mailText(), { flags: [] })).toMatchObject({ uid: 1 });
    await patient.end();
  });

  test.each([
    ['NO [OVERQUOTA] full', 'provider_rejected'],
    ['NO [LIMIT] Mail size is larger than the maximum', 'provider_rejected'],
    ['NO Quota exceeded (mailbox for user is full)', 'provider_rejected'],
    ['NO [SERVERBUG] out of order', 'provider_error'],
    ['NO not now', 'provider_error'],
    ['BAD what', 'provider_error'],
  ])('is refused with %s', async (answer, code) => {
    server.script.command = ({ name, tag }, client) =>
      name === 'APPEND' && (client.write(`${tag} ${answer}\r\n`), true);
    const error = await appendMessage(session, 'INBOX', mailText(), { flags: [] }).catch((cause: unknown) => cause);
    expect(error).toMatchObject({ code, temporary: code === 'provider_error', refused: true });
  });
});

test('a message that the server files automatically is one message, in Sent Mail and in All Mail', async () => {
  const messageId = newMessageId();
  const id = server.deliverSent(mailText({ subject: 'sent', messageId }));
  expect(server.labelsOf(id)).toEqual([ALL, SENT].sort());
  await openFolder(session, SENT);
  expect(await findByMessageId(session, messageId)).toEqual([1]);
  expect(await seen(SENT)).toEqual(['sent \\Seen']);
});

test('headers are fetched from a server that cannot search them', async () => {
  const messageId = newMessageId();
  server.deliverSent(mailText({ subject: 'sent', messageId }));
  server.deliverSent(mailText({ subject: 'other' }));
  await openFolder(session, SENT);
  for (const answer of [
    (tag: string) => `${tag} NO cannot\r\n`,
    (tag: string) => `* SEARCH\r\n${tag} OK nothing\r\n`,
  ]) {
    server.script.command = ({ name, tag }, client) => name === 'UID SEARCH' && (client.write(answer(tag)), true);
    expect(await findByMessageId(session, messageId)).toEqual([1]);
  }
});

test('other programs are notified of changes immediately', async () => {
  const reported: string[] = [];
  await box.client.mailboxOpen('Work');
  box.client.on('exists', ({ count }) => reported.push(`${count} there`));
  box.client.on('expunge', ({ seq }) => reported.push(`${seq} gone`));
  box.client.on('flags', ({ seq, flags }) => reported.push(`${seq} ${[...flags].join(' ')}`));
  void box.client.idle();
  deliver('one');
  await openFolder(session, 'INBOX');
  const moved = await moveMessages(session, [1], 'Work');
  await openFolder(session, 'Work');
  const [uid] = [...moved.uids.values()];
  await storeFlags(session, [uid as number], { add: ['\\Seen'] });
  await moveMessages(session, [uid as number], 'INBOX');
  await box.client.noop();
  expect(reported).toEqual(['1 there', '1 \\Seen', '1 gone']);
});

test('labels are created, renamed and removed; the mail stays', async () => {
  const id = deliver('one');
  await createFolder(session, 'Plans & "more"');
  await expect(createFolder(session, 'Plans & "more"')).rejects.toThrow(FolderExists);
  await openFolder(session, 'INBOX');
  await moveMessages(session, [1], 'Plans & "more"');
  await renameFolder(session, 'Plans & "more"', 'Pläne');
  expect(await seen('Pläne')).toEqual(['one']);
  await deleteFolder(session, 'Pläne');
  expect(server.labelsOf(id)).toEqual([ALL]);
  await expect(deleteFolder(session, TRASH)).rejects.toMatchObject({ refused: true });
  expect([...server.subscribed].filter((path) => path.startsWith('Pl'))).toEqual([]);
});
