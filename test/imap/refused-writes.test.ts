import { afterEach, describe, expect, it } from '@jest/globals';
import { appendMessage } from '../../src/imap/append.ts';
import { createFolder, deleteFolder, renameFolder } from '../../src/imap/change-folders.ts';
import { expungeMessages } from '../../src/imap/expunge.ts';
import { copyMessages, moveMessages } from '../../src/imap/move.ts';
import { openFolder } from '../../src/imap/select.ts';
import type { ImapSession } from '../../src/imap/session.ts';
import { storeFlags } from '../../src/imap/store.ts';
import { FolderExists } from '../../src/mail-wire/mail-error.ts';
import { FakeImap, PLAIN } from '../helpers/fakes/fake-imap.ts';
import { quoted } from '../helpers/fakes/fake-imap-wire.ts';
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

describe('a folder whose name the server sends as a literal', () => {
  const PATH = 'Odd "100%"';

  async function openWithLiterals(): Promise<void> {
    await open(`${PLAIN} MOVE`);
    server.createFolder(PATH);
    server.subscribed.add(PATH);
    server.script.answer = (text, { name }) =>
      /^(LIST|LSUB)$/.test(name)
        ? text.replace(quoted(PATH), `{${PATH.length}}\r\n${PATH}`)
        : text.replace(/^(\S+ NO) \[\w+\]/, '$1');
  }

  const refuse = (command: string) => {
    server.script.command = (each, { done }) => {
      if (each.name !== command) return false;
      done.call([...server.sessions][0], each, 'NO not allowed');
      return true;
    };
  };

  it('is there after a DELETE was refused', async () => {
    await openWithLiterals();
    refuse('DELETE');
    const error: unknown = await deleteFolder(session, PATH).catch((err: unknown) => err);
    expect(error).toMatchObject({ refused: true, command: 'DELETE' });
  });

  it('is there after a MOVE, a COPY or an APPEND into it was refused', async () => {
    await openWithLiterals();
    await openFolder(session, 'Work');
    refuse('UID MOVE');
    await expect(moveMessages(session, [1], PATH)).rejects.toMatchObject({ command: 'UID MOVE' });
    refuse('UID COPY');
    await expect(copyMessages(session, [1], PATH)).rejects.toMatchObject({ command: 'UID COPY' });
    refuse('APPEND');
    await expect(appendMessage(session, PATH, mailText(), { flags: [] })).rejects.toMatchObject({ command: 'APPEND' });
  });

  it('exists when it is created again, and a folder cannot get its name', async () => {
    await openWithLiterals();
    await expect(createFolder(session, PATH)).rejects.toThrow(FolderExists);
    await expect(renameFolder(session, 'Work', PATH)).rejects.toThrow(FolderExists);
  });

  it('keeps its subscription when it is renamed', async () => {
    await openWithLiterals();
    await renameFolder(session, PATH, 'Even');
    expect([server.subscribed.has(PATH), server.subscribed.has('Even')]).toEqual([false, true]);
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
