import { afterEach, describe, expect, it } from '@jest/globals';
import { listFoldersWithStatus } from '../../src/imap/list.ts';
import { fetchNewestFlags } from '../../src/imap/fetch.ts';
import { createFolder } from '../../src/imap/change-folders.ts';
import { selectFolder } from '../../src/imap/select.ts';
import { type ImapSession, openSession } from '../../src/imap/session.ts';
import { storable } from '../../src/runtime/storable.ts';
import { FakeImap, type FakeImapOptions, PLAIN } from '../helpers/fakes/fake-imap.ts';
import { imapSettings, LOOPBACK } from '../helpers/product/mail-session.ts';
import { mailText } from '../helpers/product/mail-text.ts';

/** Servers that differ from what most do in what they allow, offer or write. */

const open: { server: FakeImap; session?: ImapSession }[] = [];
afterEach(async () => {
  for (const { server, session } of open.splice(0)) {
    await session?.end();
    await server.close();
  }
});

async function serve(options: FakeImapOptions = {}): Promise<FakeImap> {
  const server = await new FakeImap(options).listen();
  open.push({ server });
  return server;
}

async function connect(server: FakeImap, encryption?: 'SSL' | 'STARTTLS'): Promise<ImapSession> {
  const login = { user: 'reader@example.test', password: 'a secret', imapPort: server.port };
  const settings = { ...imapSettings(login), ...(encryption ? { encryption } : {}) };
  const session = await openSession(settings, { outbound: LOOPBACK });
  open.push({ server, session });
  return session;
}

describe('names of folders', () => {
  it('are always quoted', async () => {
    const lines: string[] = [];
    const names = ['~', '~work', 'NIL', 'a&b', 'plain'];
    const server = await serve({
      folders: Object.fromEntries(names.map((name) => [name, []])),
      capabilities: 'IMAP4rev1',
    });
    const session = await connect(server);
    for (const each of server.sessions) each.socket.on('data', (chunk: Buffer) => lines.push(chunk.toString()));
    await listFoldersWithStatus(session);
    for (const name of ['~', '~work', 'NIL', 'plain']) await selectFolder(session, name);
    const named = lines.filter((line) => / (STATUS|SELECT|EXAMINE) /.test(line));
    expect(named.length).toBeGreaterThanOrEqual(8);
    expect(named.filter((line) => !/ (STATUS|SELECT|EXAMINE) "/.test(line))).toEqual([]);
  });

  it('are modified UTF-7 on a server that offers UTF8=ACCEPT, and UTF-8 where it requires that', async () => {
    const server = await serve({ capabilities: `${PLAIN} UTF8=ACCEPT` });
    await createFolder(await connect(server), 'Post 📬');
    expect([...server.folders.keys()]).toContain('Post &2D3c7A-');
    expect(server.log.filter(({ name }) => name === 'ENABLE').flatMap(({ args }) => args)).not.toContain('UTF8=ACCEPT');
    const demanding = await serve({ capabilities: `${PLAIN} UTF8=ACCEPT UTF8=ONLY` });
    await connect(demanding);
    expect(demanding.log.filter(({ name }) => name === 'ENABLE').flatMap(({ args }) => args)).toContain('UTF8=ACCEPT');
  });
});

it('a folder whose name decodes to what cannot be stored, or to the name of another, is left out', async () => {
  const odd = ['Party &2Dw-', 'a&AAA-b', 'R&D', 'R&M'];
  const server = await serve({ folders: Object.fromEntries(['Fine', ...odd].map((name) => [name, []])) });
  const paths = (await listFoldersWithStatus(await connect(server))).map(({ path }) => path);
  expect(paths).toEqual(expect.arrayContaining(['INBOX', 'Fine']));
  expect(paths.map(storable)).toEqual([...new Set(paths)]);
});

it('attributes of folders and flags are case-insensitive', async () => {
  const server = await serve({ folders: { Outgoing: ['\\sent'], Sent: [], Names: ['\\noselect'], Bin: ['\\TRASH'] } });
  server.append('Outgoing', mailText(), { flags: ['\\SEEN', '\\deleted'] });
  const session = await connect(server);
  const listed = await listFoldersWithStatus(session);
  const roles = Object.fromEntries(listed.map(({ path, role }) => [path, role]));
  expect(roles).toMatchObject({ Outgoing: 'SENT', Sent: 'UNKNOWN', Bin: 'TRASH' });
  expect(listed.find(({ path }) => path === 'Names')?.selectable).toBe(false);
  await selectFolder(session, 'Outgoing');
  expect(await fetchNewestFlags(session)).toEqual([{ uid: 1, seen: true, deleted: true, flags: [] }]);
});

describe('a login that cannot work says why', () => {
  const failure = async (server: FakeImap, encryption?: 'SSL' | 'STARTTLS') =>
    connect(server, encryption).then(
      () => 'no error',
      (error: { code: string; detail: string }) => `${error.code}: ${error.detail}`,
    );

  it('with passwords disabled', async () => {
    const plain = await serve({ capabilities: 'IMAP4rev1 LOGINDISABLED STARTTLS' });
    expect(await failure(plain)).toMatch(/^provider_error: .*no password without TLS.*STARTTLS/);
    const cram = await serve({ capabilities: 'IMAP4rev1 LOGINDISABLED AUTH=CRAM-MD5' });
    expect(await failure(cram)).toMatch(/^provider_error: .*not accept password logins \(it offers CRAM-MD5\)/);
    const oauth = await serve({ capabilities: 'IMAP4rev1 LOGINDISABLED AUTH=XOAUTH2' });
    expect(await failure(oauth)).toMatch(/XOAUTH2.*credentials\.oauth2, or with an app password/);
  });

  it('where the server requires encryption', async () => {
    const server = await serve();
    server.script.command = (command, session) => {
      if (command.name !== 'LOGIN') return false;
      session.done(command, 'NO [PRIVACYREQUIRED] not like this');
      return true;
    };
    expect(await failure(server)).toMatch(/^provider_error: .*encrypted connection/);
  });

  it('with the text that the server sent before it hung up', async () => {
    const server = await serve();
    server.script.greeting = '* BYE out of order until Monday';
    expect(await failure(server)).toMatch(/^provider_error: .*closed the connection: out of order until Monday/);
  });

  it('with the right encryption where the port expects another', async () => {
    const plain = await serve();
    expect(await failure(plain, 'SSL')).toMatch(/TLS failed.*STARTTLS/);
  });
});
