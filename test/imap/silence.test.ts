import { afterEach, expect, it } from '@jest/globals';
import { deleteFolder } from '../../src/imap/change-folders.ts';
import { listUids } from '../../src/imap/list-uids.ts';
import { moveMessages } from '../../src/imap/move.ts';
import { findByMessageId } from '../../src/imap/search.ts';
import { selectFolder } from '../../src/imap/select.ts';
import type { ImapSession } from '../../src/imap/session.ts';
import { FakeImap, PLAIN } from '../helpers/fakes/fake-imap.ts';
import { mailText } from '../helpers/product/mail-text.ts';
import { openTestSession } from '../helpers/product/mail-session.ts';

/** How long a server may be silent before it answers: longer where a command is slow on a large folder. */

const open: { server: FakeImap; session: ImapSession }[] = [];
afterEach(async () => {
  for (const { server, session } of open.splice(0)) {
    await session.end();
    await server.close();
  }
});

/** Runs commands on a session that a usual silence of 300 ms ends, on a server that answers one of them after a second. */
async function runSlowly(name: string, run: (session: ImapSession) => Promise<unknown>): Promise<unknown> {
  const server = await new FakeImap({ capabilities: `${PLAIN} MOVE`, folders: { Work: [] } }).listen();
  for (let n = 0; n < 3; n++) server.append('INBOX', mailText());
  const login = { user: 'reader@example.test', password: 'secret', imapPort: server.port };
  const session = await openTestSession(login, { silenceMs: 300 });
  open.push({ server, session });
  await selectFolder(session, 'INBOX');
  server.script.command = (command, connection) => {
    if (command.name !== name) return false;
    setTimeout(() => connection.answer(command), 1_000);
    return true;
  };
  return run(session);
}

it.each<[string, (session: ImapSession) => Promise<unknown>]>([
  ['UID SEARCH', (session) => listUids(session)],
  ['UID SEARCH', (session) => findByMessageId(session, '<a@example.test>')],
  ['DELETE', (session) => deleteFolder(session, 'Work')],
])('%s may be silent for long', async (name, run) => {
  await expect(runSlowly(name, run)).resolves.not.toThrow();
});

it.each<[string, (session: ImapSession) => Promise<unknown>]>([
  ['UID MOVE', (session) => moveMessages(session, [1], 'Work')],
  ['SELECT', (session) => selectFolder(session, 'Work')],
])('%s of one message, or none, may not', async (name, run) => {
  await expect(runSlowly(name, run)).rejects.toMatchObject({ code: 'provider_error' });
});
