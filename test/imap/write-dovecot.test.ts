import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { appendMessage } from '../../src/imap/append.ts';
import { createFolder, deleteFolder, folderPath, renameFolder } from '../../src/imap/change-folders.ts';
import { expungeMessages } from '../../src/imap/expunge.ts';
import { copyMessages, moveMessages } from '../../src/imap/move.ts';
import { findByMessageId } from '../../src/imap/search.ts';
import { openFolder } from '../../src/imap/select.ts';
import type { ImapSession } from '../../src/imap/session.ts';
import { storeFlags } from '../../src/imap/store.ts';
import { FolderExists, FolderMissing, MailError } from '../../src/mail-wire/mail-error.ts';
import { DOVECOT_PROFILES, type DovecotProfile, startDovecotProfile } from '../helpers/servers/dovecot-profiles.ts';
import type { RunningDovecot } from '../helpers/servers/dovecot.ts';
import { isLong } from '../helpers/runner/long.ts';
import { openTestSession } from '../helpers/product/mail-session.ts';
import { mailText, newMessageId } from '../helpers/product/mail-text.ts';
import { addUser, type MailUser } from '../helpers/product/mail-user.ts';
import { type Mailbox, openMailbox } from '../helpers/product/mailbox.ts';

/** Each verb against a real server, with and without the extensions that it leans on; seen by another mail program. */

/** Those in between are part of the long form, which `.ci/run` runs too. */
const PROFILES: DovecotProfile[] = isLong()
  ? ['full', 'withoutMove', 'stripped', 'old', 'prefixed']
  : ['full', 'withoutMove', 'old'];

describe.each(PROFILES)('Dovecot, %s', (profile) => {
  const {
    prefix = '',
    separator = '/',
    capabilities,
  } = {
    prefix: undefined,
    separator: undefined,
    capabilities: undefined,
    ...DOVECOT_PROFILES[profile],
  };
  const uidplus = !capabilities || capabilities.includes('UIDPLUS');
  const path = (...names: string[]) => prefix + names.join(separator);
  let dovecot: RunningDovecot;
  let user: MailUser;
  let box: Mailbox;
  let session: ImapSession;

  beforeAll(async () => {
    dovecot = await startDovecotProfile(profile);
  });
  afterAll(() => dovecot?.stop());
  beforeEach(async () => {
    user = await addUser({ dovecot });
    box = await openMailbox(user);
    session = await openTestSession(user);
    await box.createFolder(path('Filed'));
  });
  afterEach(async () => {
    await session.end();
    await box.close();
  });

  const subjects = async (folder: string) => {
    const lock = await box.client.getMailboxLock(folder);
    try {
      await box.client.noop();
      if (!box.client.mailbox || box.client.mailbox.exists === 0) return [];
      const rows = await box.client.fetchAll('1:*', { envelope: true, flags: true });
      return rows.map(({ envelope, flags }) =>
        [envelope?.subject, ...[...(flags ?? [])].filter((f) => f !== '\\Recent').sort()].join(' '),
      );
    } finally {
      lock.release();
    }
  };
  const fill = async (folder: string, ...names: string[]) => {
    const uids: number[] = [];
    for (const subject of names) uids.push(await box.append(folder, { subject }));
    return uids;
  };

  test('flags are added and removed, and the resulting ones returned', async () => {
    const [one, two, gone] = (await fill('INBOX', 'one', 'two', 'gone')) as [number, number, number];
    await box.addFlags('INBOX', [one], ['\\Flagged']);
    await box.expunge('INBOX', gone);
    await openFolder(session, 'INBOX');
    const added = await storeFlags(session, [one, two, gone, 4_000_000], { add: ['\\Seen'] });
    expect([...added.keys()].sort()).toEqual([one, two]);
    expect(added.get(one)).toEqual(new Set(['\\Flagged', '\\Seen']));
    const both = await storeFlags(session, [one], { add: ['$Label1', '\\Answered'], remove: ['\\Flagged', '\\Seen'] });
    expect(both).toEqual(new Map([[one, new Set(['\\Answered', '$Label1'])]]));
    const same = await storeFlags(session, [one], { add: ['\\Answered'] });
    expect(same).toEqual(both);
    expect(await subjects('INBOX')).toEqual(['one $Label1 \\Answered', 'two \\Seen']);
  });

  test('messages that have vanished are missing in the result', async () => {
    const [one, two] = (await fill('INBOX', 'one', 'two')) as [number, number];
    await openFolder(session, 'INBOX');
    await box.expunge('INBOX', one);
    const flags = await storeFlags(session, [one, two], { add: ['\\Seen'] });
    expect(flags.get(two)).toEqual(new Set(['\\Seen']));
    expect(await subjects('INBOX')).toEqual(['two \\Seen']);
  });

  test('mail is moved with its flags, and missing messages are reported', async () => {
    const [one, two, three] = (await fill('INBOX', 'one', 'two', 'three')) as [number, number, number];
    await box.addFlags('INBOX', [one], ['\\Seen', '\\Flagged']);
    await fill(path('Filed'), 'there');
    await openFolder(session, 'INBOX');
    const moved = await moveMessages(session, [one, three, 4_000_000], path('Filed'));
    expect(moved.missing).toEqual([4_000_000]);
    expect(await subjects('INBOX')).toEqual(['two']);
    expect(await subjects(path('Filed'))).toEqual(['there', 'one \\Flagged \\Seen', 'three']);
    const uids = await box.uids(path('Filed'));
    expect(moved.uids).toEqual(
      new Map(
        uidplus
          ? [
              [one, uids[1]],
              [three, uids[2]],
            ]
          : [],
      ),
    );
    const status = await box.client.status(path('Filed'), { uidValidity: true });
    expect(moved.uidValidity).toBe(uidplus && status ? Number(status.uidValidity) : null);
    expect(await moveMessages(session, [one], path('Filed'))).toMatchObject({ uids: new Map(), missing: [one] });
    expect(await moveMessages(session, [], path('Filed'))).toMatchObject({ uids: new Map(), missing: [] });
    expect(await box.uids('INBOX')).toEqual([two]);
  });

  test('mail that another program has moved is missing', async () => {
    const [one, two] = (await fill('INBOX', 'one', 'two')) as [number, number];
    await openFolder(session, 'INBOX');
    await box.move('INBOX', one, path('Filed'));
    const { missing } = await moveMessages(session, [one, two], path('Filed'));
    expect(missing).toEqual([one]);
    expect(await subjects('INBOX')).toEqual([]);
    expect(await subjects(path('Filed'))).toEqual(['one', 'two']);
  });

  test('a move spares what others marked as deleted', async () => {
    const [one, marked, other] = (await fill('INBOX', 'one', 'marked', 'other')) as [number, number, number];
    await box.addFlags('INBOX', [marked], ['\\Deleted', '\\Seen']);
    await openFolder(session, 'INBOX');
    await moveMessages(session, [one], path('Filed'));
    expect(await subjects('INBOX')).toEqual(['marked \\Deleted \\Seen', 'other']);
    await expungeMessages(session, [other, 4_000_000]);
    expect(await subjects('INBOX')).toEqual(['marked \\Deleted \\Seen']);
    await expungeMessages(session, [marked]);
    expect(await subjects('INBOX')).toEqual([]);
    expect(await subjects(path('Filed'))).toEqual(['one']);
  });

  test('a copy keeps the original', async () => {
    const [one] = (await fill('INBOX', 'one')) as [number];
    await openFolder(session, 'INBOX');
    const copied = await copyMessages(session, [one, 99], path('Filed'));
    expect(copied.missing).toEqual([99]);
    expect(copied.uids.size).toBe(uidplus ? 1 : 0);
    expect([await subjects('INBOX'), await subjects(path('Filed'))]).toEqual([['one'], ['one']]);
  });

  test('a thousand scattered messages are moved', async () => {
    const source = mailText({ subject: 'many' });
    for (let index = 0; index < 40; index++) await box.append('INBOX', source);
    const uids = (await box.uids('INBOX')).filter((uid) => uid % 2 === 0);
    await openFolder(session, 'INBOX');
    const { missing } = await moveMessages(
      session,
      [...uids, ...Array.from({ length: 1000 }, (_, n) => 1000 + 2 * n)],
      path('Filed'),
    );
    expect(missing).toHaveLength(1000);
    expect(await box.uids(path('Filed'))).toHaveLength(20);
  });

  test('folders that do not exist are reported', async () => {
    const [one] = (await fill('INBOX', 'one')) as [number];
    await expect(openFolder(session, path('None'))).rejects.toThrow(FolderMissing);
    await openFolder(session, 'INBOX');
    for (const attempt of [moveMessages, copyMessages]) {
      const error = await attempt(session, [one], path('None at all')).catch((cause: unknown) => cause);
      expect(error).toBeInstanceOf(FolderMissing);
      expect(error).toMatchObject({ refused: true, detail: expect.not.stringContaining('None at all') });
    }
    const append = appendMessage(session, path('None'), mailText(), { flags: [] });
    await expect(append).rejects.toThrow(FolderMissing);
    await expect(deleteFolder(session, path('None'))).rejects.toThrow(FolderMissing);
    await expect(renameFolder(session, path('None'), path('Other'))).rejects.toThrow(FolderMissing);
    expect(await subjects('INBOX')).toEqual(['one']);
  });

  test('a message is appended with flags and date, byte for byte', async () => {
    const source = Buffer.concat([
      mailText({ subject: 'whole', text: 'ä'.repeat(5_000) }),
      Buffer.alloc(300_000, 'x\r\n'),
    ]);
    const date = new Date('2024-02-29T23:59:58Z');
    const where = await appendMessage(session, path('Filed'), source, { flags: ['\\Draft', '\\Seen', '$Mine'], date });
    const [uid] = await box.uids(path('Filed'));
    if (uidplus) expect(where).toMatchObject({ uid });
    else expect(where).toBeNull();
    const lock = await box.client.getMailboxLock(path('Filed'));
    const row = await box.client.fetchOne(
      String(uid),
      { source: true, flags: true, internalDate: true },
      { uid: true },
    );
    lock.release();
    if (!row) throw new Error('not there');
    expect(row.source?.equals(source)).toBe(true);
    expect(row.internalDate).toEqual(date);
    expect([...(row.flags ?? [])].filter((f) => f !== '\\Recent').sort()).toEqual(['$Mine', '\\Draft', '\\Seen']);
    await appendMessage(session, path('Filed'), mailText({ subject: 'small' }), { flags: [] });
    expect(await subjects(path('Filed'))).toEqual(['whole $Mine \\Draft \\Seen', 'small']);
  });

  test('a message is found by exactly its Message-ID', async () => {
    const id = newMessageId();
    const longer = id.replace('@', 'x@');
    const partly = `<x${id.slice(1)}`;
    await box.append(path('Filed'), { subject: 'longer', messageId: longer });
    await box.append(path('Filed'), { subject: 'references', inReplyTo: id, references: id });
    await box.append(path('Filed'), { subject: 'partly', messageId: partly });
    const first = await box.append(path('Filed'), { subject: 'it', messageId: id });
    const folded = await box.append(path('Filed'), { subject: 'again', messageId: `\r\n ${id}` });
    await openFolder(session, path('Filed'));
    expect(await findByMessageId(session, id)).toEqual([first, folded]);
    expect(await findByMessageId(session, id.slice(1, -1))).toEqual([first, folded]);
    expect(await findByMessageId(session, newMessageId())).toEqual([]);
    expect(await findByMessageId(session, 'not "an" id \\')).toEqual([]);
    await openFolder(session, 'INBOX');
    expect(await findByMessageId(session, id)).toEqual([]);
  });

  const lsub = async () => {
    const all = await box.client.list();
    return all.filter(({ subscribed }) => subscribed).map((each) => each.path);
  };

  test.each(['Plain', 'A & B', 'Über "Ähren" 🌾', '受信箱', '\\slash', '100% * of &amp; {5}', 'a  b '.trim()])(
    'a folder named %s is created, renamed and deleted',
    async (name) => {
      const made = folderPath(session, null, name);
      expect(made).toBe(path(name));
      await createFolder(session, made);
      expect(await lsub()).toContain(made);
      await expect(createFolder(session, made)).rejects.toThrow(FolderExists);
      const inner = folderPath(session, made, 'In it');
      await createFolder(session, inner);
      await appendMessage(session, inner, mailText({ subject: 'inside' }), { flags: [] });
      const renamed = folderPath(session, path('Filed'), `${name}2`);
      await renameFolder(session, made, renamed);
      const after = (await box.client.list()).map((each) => each.path);
      expect(after).toEqual(expect.arrayContaining([renamed, folderPath(session, renamed, 'In it')]));
      expect(after).not.toContain(made);
      expect(await lsub()).toEqual(expect.arrayContaining([renamed, folderPath(session, renamed, 'In it')]));
      expect(await lsub()).not.toContain(made);
      expect(await subjects(folderPath(session, renamed, 'In it'))).toEqual(['inside']);
      await expect(renameFolder(session, renamed, path('Filed'))).rejects.toThrow(FolderExists);
      await openFolder(session, renamed);
      await deleteFolder(session, folderPath(session, renamed, 'In it'));
      await deleteFolder(session, renamed);
      expect((await box.client.list()).map((each) => each.path)).not.toContain(renamed);
      expect(await lsub()).not.toContain(renamed);
    },
  );

  test('the selected folder is renamed without losing messages that others marked', async () => {
    await fill(path('Filed'), 'marked');
    await box.addFlags(path('Filed'), '1:*' as unknown as number, ['\\Deleted']);
    await openFolder(session, path('Filed'));
    await renameFolder(session, path('Filed'), path('Kept'));
    expect(await subjects(path('Kept'))).toEqual(['marked \\Deleted']);
  });

  test('a folder with subfolders is deleted and these stay, or the deletion is refused', async () => {
    const inner = path('Filed', 'Inner');
    await createFolder(session, inner);
    await fill(inner, 'inside');
    await deleteFolder(session, path('Filed')).catch((error: unknown) => {
      if (!(error instanceof MailError && error.refused)) throw error;
    });
    expect(await subjects(inner)).toEqual(['inside']);
  });
});
