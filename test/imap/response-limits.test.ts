import { afterEach, describe, expect, it } from '@jest/globals';
import { expungeMessages } from '../../src/imap/expunge.ts';
import { fetchMeta } from '../../src/imap/fetch.ts';
import { moveMessages } from '../../src/imap/move.ts';
import { selectFolder } from '../../src/imap/select.ts';
import { type ImapSession, openSession } from '../../src/imap/session.ts';
import { storeFlags } from '../../src/imap/store.ts';
import { FakeImap, PLAIN } from '../helpers/fakes/fake-imap.ts';
import { mailText } from '../helpers/product/mail-text.ts';
import { imapSettings, LOOPBACK } from '../helpers/product/mail-session.ts';

/** A command on messages may get some responses for each message of the folder, however few or many these are. */

const open: { server: FakeImap; session: ImapSession }[] = [];
afterEach(async () => {
  for (const { server, session } of open.splice(0)) {
    await session.end();
    await server.close();
  }
});

/** Commands that a server answers with one response for each message, and how such a response looks. */
const COMMANDS = [
  { name: 'UID EXPUNGE', response: '* 1 EXPUNGE\r\n', run: (session: ImapSession) => expungeMessages(session, [1]) },
  {
    name: 'EXPUNGE',
    response: '* 1 EXPUNGE\r\n',
    capabilities: PLAIN.replace(' UIDPLUS', ''),
    run: (session: ImapSession) => expungeMessages(session, [1]),
  },
  {
    name: 'UID STORE',
    response: '* 1 FETCH (UID 1 FLAGS (\\Seen))\r\n',
    run: (session: ImapSession) => storeFlags(session, [1], { add: ['\\Seen'] }),
  },
  {
    name: 'UID FETCH',
    response: '* 1 FETCH (UID 1 FLAGS (\\Seen))\r\n',
    run: (session: ImapSession) => storeFlags(session, [1], { add: [], remove: [] }),
  },
  {
    name: 'UID FETCH',
    response:
      '* 1 FETCH (UID 1 FLAGS () RFC822.SIZE 10 INTERNALDATE "01-Jan-2026 00:00:00 +0000" BODY[HEADER.FIELDS (MESSAGE-ID)] {21}\r\n' +
      'Message-ID: <a@b>\r\n\r\n)\r\n',
    run: (session: ImapSession) => fetchMeta(session, 1),
  },
  {
    name: 'UID MOVE',
    response: '* 1 EXPUNGE\r\n',
    capabilities: `${PLAIN} MOVE`,
    run: (session: ImapSession) => moveMessages(session, [1], 'Archive'),
  },
];

describe.each(COMMANDS)('$name', ({ name, response, capabilities = PLAIN, run }) => {
  /** Runs the command in a folder of `exists` messages on a server that gives it so many responses. */
  async function runWith(exists: number, responses: number): Promise<unknown> {
    const server = await new FakeImap({ folders: { Archive: [] }, capabilities }).listen();
    const login = { user: 'reader@example.test', password: 'a secret', imapPort: server.port };
    const session = await openSession(imapSettings(login), { outbound: LOOPBACK, maxResponses: 1_000 });
    open.push({ server, session });
    server.append('INBOX', mailText());
    server.script.answer = (text) => text.replace('* 1 EXISTS', `* ${exists} EXISTS`);
    server.script.command = (command, connection) => {
      if (command.name !== name) return false;
      connection.write(response.repeat(responses));
      connection.answer(command);
      return true;
    };
    await selectFolder(session, 'INBOX');
    return run(session);
  }

  it('succeeds with a response for each message of a large folder', async () => {
    await expect(runWith(24_000, 24_000)).resolves.not.toThrow();
  });

  it('fails with far more responses than the folder has messages', async () => {
    await expect(runWith(10, 20_000)).rejects.toMatchObject({
      detail: expect.stringMatching(/the response was too large/),
    });
  });
});
