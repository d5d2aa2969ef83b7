import { afterEach, describe, expect, it } from '@jest/globals';
import { appendMessage } from '../../src/imap/append.ts';
import { createFolder, deleteFolder, renameFolder } from '../../src/imap/change-folders.ts';
import { expungeMessages } from '../../src/imap/expunge.ts';
import { copyMessages, moveMessages } from '../../src/imap/move.ts';
import { openFolder } from '../../src/imap/select.ts';
import type { ImapSession } from '../../src/imap/session.ts';
import { storeFlags } from '../../src/imap/store.ts';
import { FakeImap, PLAIN } from '../helpers/fakes/fake-imap.ts';
import { mailText } from '../helpers/product/mail-text.ts';
import { openTestSession } from '../helpers/product/mail-session.ts';

/** A server refuses one command that writes in one folder: the same is done in another folder on the same connection. */

type Write = (session: ImapSession, path: string) => Promise<unknown>;

const inFolder =
  (write: (session: ImapSession) => Promise<unknown>): Write =>
  async (session, path) => {
    await openFolder(session, path);
    return write(session);
  };

const NEW = '<new>';

const WRITES: { command: string; write: Write; capabilities?: string; isIgnored?: boolean }[] = [
  { command: 'UID STORE', write: inFolder((session) => storeFlags(session, [1], { add: ['\\Seen'] })) },
  { command: 'UID MOVE', write: inFolder((session) => moveMessages(session, [1], 'Target')) },
  { command: 'UID COPY', write: inFolder((session) => copyMessages(session, [1], 'Target')) },
  { command: 'UID EXPUNGE', write: inFolder((session) => expungeMessages(session, [1])) },
  { command: 'EXPUNGE', write: inFolder((session) => expungeMessages(session, [1])), capabilities: 'IMAP4rev1' },
  { command: 'APPEND', write: (session, path) => appendMessage(session, path, mailText(), { flags: [] }) },
  { command: 'CREATE', write: (session, path) => createFolder(session, `${path}/${NEW}`) },
  { command: 'RENAME', write: (session, path) => renameFolder(session, path, `${path}s`) },
  { command: 'DELETE', write: (session, path) => deleteFolder(session, path) },
  { command: 'SUBSCRIBE', write: (session, path) => createFolder(session, `${path}/${NEW}`), isIgnored: true },
  { command: 'UNSUBSCRIBE', write: (session, path) => deleteFolder(session, path), isIgnored: true },
];

let server: FakeImap;
let session: ImapSession;
afterEach(async () => {
  await session.end();
  await server.close();
});

async function open(capabilities: string): Promise<void> {
  server = await new FakeImap({ capabilities, folders: { Odd: [], Work: [], Target: [] } }).listen();
  for (const path of ['Odd', 'Work']) server.add(path, mailText());
  session = await openTestSession({ user: 'u', password: 'p', imapPort: server.port });
}

describe.each(['NO out of order', 'BAD invalid message set'])('%s', (text) => {
  it.each(WRITES)('to $command in one folder', async ({ command, write, capabilities, isIgnored }) => {
    await open(capabilities ?? `${PLAIN} MOVE`);
    server.script.command = (each, { selected, done }) => {
      const folder = each.name.includes('UID') || each.name === 'EXPUNGE' ? selected?.path : String(each.args[0]);
      if (each.name !== command || !folder?.startsWith('Odd')) return false;
      done.call([...server.sessions][0], each, text);
      return true;
    };
    if (isIgnored) await write(session, 'Odd');
    else await expect(write(session, 'Odd')).rejects.toMatchObject({ refused: true, command });
    expect(server.count(command)).toBe(1);
    await write(session, 'Work');
    expect(server.count(command)).toBe(2);
    expect(server.count('LOGIN')).toBe(1);
  });
});

it('sends no STORE, COPY, MOVE or EXPUNGE to an empty folder, as Apache James refuses those', async () => {
  await open(`${PLAIN} MOVE`);
  await openFolder(session, 'Target');
  expect(await storeFlags(session, [1], { add: ['\\Seen'] })).toEqual(new Map());
  expect(await moveMessages(session, [1], 'Work')).toMatchObject({ missing: [1] });
  expect(await copyMessages(session, [1], 'Work')).toMatchObject({ missing: [1] });
  await expungeMessages(session, [1]);
  const about = server.log.map(({ name }) => name).filter((name) => /STORE|COPY|MOVE|EXPUNGE|FETCH/.test(name));
  expect(about).toEqual([]);
});
