import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { createSessionPool, type SessionPool, type SessionPoolOptions } from '../../src/imap/pool.ts';
import { openFolder } from '../../src/imap/select.ts';
import type { ImapSession } from '../../src/imap/session.ts';
import type { ServerLogin } from '../../src/contract/account.ts';
import { storeFlags } from '../../src/imap/store.ts';
import { FolderMissing, MailError } from '../../src/mail-wire/mail-error.ts';
import { FakeImap } from '../helpers/fakes/fake-imap.ts';
import { imapSettings, LOOPBACK, openTestSession } from '../helpers/product/mail-session.ts';
import { mailText } from '../helpers/product/mail-text.ts';
import { addUser, kick } from '../helpers/product/mail-user.ts';
import { waitFor } from '../helpers/assert/wait.ts';

let server: FakeImap;
let settings: ServerLogin;
const pools: SessionPool[] = [];

function pool(options: Partial<SessionPoolOptions> = {}): SessionPool {
  const made = createSessionPool({ outbound: LOOPBACK, ...options });
  pools.push(made);
  return made;
}

beforeEach(async () => {
  server = await new FakeImap({ folders: { Work: [] } }).listen();
  settings = imapSettings({ user: 'paula@example.test', password: 'secret', imapPort: server.port });
});
afterEach(async () => {
  for (const each of pools.splice(0)) await each.close();
  await server.close();
});

const logins = () => server.count('LOGIN');
const noop = async () => {};

/** Work that is under way until it is let go. */
function held(sessions: SessionPool, account = 'acc_1') {
  let release = () => {};
  let begun: (session: ImapSession) => void = () => {};
  const until = new Promise<void>((resolve) => (release = resolve));
  const started = new Promise<ImapSession>((resolve) => (begun = resolve));
  const done = sessions.use(account, settings, async (session) => {
    begun(session);
    await until;
  });
  done.catch(() => {});
  return { done, started, release: () => release() };
}

describe('a session', () => {
  test('is reused without a login and without an extra command', async () => {
    const sessions = pool();
    server.add('INBOX', mailText());
    for (let index = 0; index < 5; index++) {
      await sessions.use('acc_1', settings, async (session) => {
        await openFolder(session, 'INBOX');
        await storeFlags(session, [1], { add: ['\\Seen'] });
      });
    }
    expect([logins(), server.count('NOOP'), server.count('UID STORE')]).toEqual([1, 0, 5]);
  });

  test('is opened for each of several at a time, up to the limit', async () => {
    const sessions = pool({ maxPerAccount: 2 });
    const [one, two, three, other] = [held(sessions), held(sessions), held(sessions), held(sessions, 'acc_2')];
    await Promise.all([one.started, two.started, other.started]);
    expect(logins()).toBe(3);
    one.release();
    expect(await three.started).toBe(await one.started);
    for (const each of [two, three, other]) each.release();
    await Promise.all([one, two, three, other].map(({ done }) => done));
    expect(logins()).toBe(3);
  });

  test('stays open after a refusal, and is probed first after any other failure', async () => {
    const sessions = pool();
    const missing = sessions.use('acc_1', settings, (session) => openFolder(session, 'None'));
    await expect(missing).rejects.toThrow(FolderMissing);
    await sessions.use('acc_1', settings, noop);
    expect([logins(), server.count('NOOP')]).toEqual([1, 0]);
    const failed = sessions.use('acc_1', settings, () => Promise.reject(new Error('of our own')));
    await expect(failed).rejects.toThrow('of our own');
    await sessions.use('acc_1', settings, noop);
    expect([logins(), server.count('NOOP')]).toEqual([1, 1]);
  });

  test('whose connection broke is discarded', async () => {
    const sessions = pool();
    const broken = sessions.use('acc_1', settings, async (session) => {
      for (const each of server.sessions) each.socket.destroy();
      await openFolder(session, 'INBOX');
    });
    await expect(broken).rejects.toMatchObject({ code: 'provider_error', refused: false });
    await sessions.use('acc_1', settings, (session) => openFolder(session, 'INBOX'));
    expect(logins()).toBe(2);
  });

  test('that the server has closed is not used', async () => {
    const sessions = pool();
    await sessions.use('acc_1', settings, noop);
    for (const each of server.sessions) each.socket.end('* BYE too long idle\r\n');
    await waitFor(() => server.sessions.size === 0);
    let runs = 0;
    await sessions.use('acc_1', settings, async (session) => {
      runs += 1;
      await openFolder(session, 'INBOX');
    });
    expect([logins(), runs]).toEqual([2, 1]);
  });

  test('whose connection is dead is detected before its use', async () => {
    const sessions = pool({ probeAfterMs: 0 });
    await sessions.use('acc_1', settings, noop);
    server.script.command = ({ name }, { socket }) => name === 'NOOP' && (socket.destroy(), true);
    await sessions.use('acc_1', settings, (session) => openFolder(session, 'INBOX'));
    expect([logins(), server.count('NOOP')]).toEqual([2, 1]);
  });

  test('is logged out after its idle time, and stays logged in until then', async () => {
    const sessions = pool({ idleMs: 300 });
    await sessions.use('acc_1', settings, noop);
    expect(server.sessions.size).toBe(1);
    await waitFor(() => server.sessions.size === 0);
    expect(server.count('LOGOUT')).toBe(1);
    await sessions.use('acc_1', settings, noop);
    expect(logins()).toBe(2);
  });

  test('with old settings is not used with new ones', async () => {
    const sessions = pool();
    const old = held(sessions);
    await old.started;
    const changed = { ...settings, password: 'changed' };
    await sessions.use('acc_1', changed, noop);
    old.release();
    await old.done;
    await sessions.use('acc_1', changed, noop);
    await sessions.use('acc_1', changed, noop);
    const passwords = server.log.filter(({ name }) => name === 'LOGIN').map(({ args }) => args[1]);
    expect(passwords).toEqual(['secret', 'changed', ...(passwords.length > 2 ? ['changed'] : [])]);
    await waitFor(() => server.sessions.size === 1);
  });

  test('is closed when its account is dropped, in use or not', async () => {
    const sessions = pool();
    const busy = held(sessions);
    await busy.started;
    await sessions.use('acc_1', settings, noop);
    await sessions.use('acc_2', settings, noop);
    await sessions.drop('acc_1');
    await waitFor(() => server.sessions.size === 2);
    busy.release();
    await busy.done;
    await waitFor(() => server.sessions.size === 1);
    await sessions.close();
    await waitFor(() => server.sessions.size === 0);
    await expect(sessions.use('acc_2', settings, noop)).rejects.toThrow(MailError);
  });
});

describe('a caller that waits for a session', () => {
  test('gets it in turn', async () => {
    const sessions = pool({ maxPerAccount: 1 });
    const first = held(sessions);
    await first.started;
    const order: number[] = [];
    const rest = [1, 2, 3, 4].map((number) => sessions.use('acc_1', settings, async () => void order.push(number)));
    first.release();
    await Promise.all(rest);
    expect([order, logins()]).toEqual([[1, 2, 3, 4], 1]);
  });

  test('fails after too long, and the callers behind it continue', async () => {
    const sessions = pool({ maxPerAccount: 1, waitMs: 200 });
    const first = held(sessions);
    await first.started;
    await expect(sessions.use('acc_1', settings, noop)).rejects.toMatchObject({
      code: 'provider_error',
      detail: 'all IMAP connections of this mailbox are busy',
    });
    const last = sessions.use('acc_1', settings, async () => 'done');
    first.release();
    expect(await last).toBe('done');
  });

  test('is not affected by another that fails or cannot log in', async () => {
    const sessions = pool({ maxPerAccount: 1 });
    server.script.command = ({ name, tag }, session) =>
      name === 'LOGIN' && logins() === 1 && (session.write(`${tag} NO [AUTHENTICATIONFAILED] wrong\r\n`), true);
    const refused = sessions.use('acc_1', settings, noop);
    const failing = sessions.use('acc_1', settings, () => Promise.reject(new Error('of our own')));
    const last = sessions.use('acc_1', settings, async () => 'done');
    await expect(refused).rejects.toMatchObject({ code: 'invalid_credentials' });
    await expect(failing).rejects.toThrow('of our own');
    expect(await last).toBe('done');
  });

  test.each([
    'NO [LIMIT] Maximum number of connections exceeded',
    'NO [ALERT] Too many simultaneous connections. (Failure)',
    'NO too many connections',
  ])('is given another one when the provider wants no more: %s', async (answer) => {
    const sessions = pool();
    server.script.command = ({ name, tag }, session) =>
      name === 'LOGIN' && server.sessions.size > 2 && (session.write(`${tag} ${answer}\r\n`), true);
    const [one, two] = [held(sessions), held(sessions)];
    await Promise.all([one.started, two.started]);
    const three = held(sessions);
    await waitFor(() => logins() === 3);
    const four = held(sessions);
    one.release();
    expect(await three.started).toBe(await one.started);
    three.release();
    expect(await four.started).toBe(await one.started);
    for (const each of [two, four]) each.release();
    await Promise.all([one, two, three, four].map(({ done }) => done));
    expect(logins()).toBe(3);
  });

  test('reports the limit when it has no other session to wait for', async () => {
    const sessions = pool();
    server.script.command = ({ name, tag }, session) =>
      name === 'LOGIN' && (session.write(`${tag} NO too many connections\r\n`), true);
    const all = [1, 2, 3].map(() => sessions.use('acc_1', settings, noop).catch((error: unknown) => error));
    for (const error of await Promise.all(all)) expect(error).toMatchObject({ code: 'provider_error', refused: true });
  });
});

test('a session that Dovecot closed is replaced', async () => {
  const user = await addUser();
  const sessions = pool();
  const inbox = () => sessions.use('acc_1', imapSettings(user), (session) => openFolder(session, 'INBOX'));
  await inbox();
  await kick(user);
  // One that is used just as the server ends it may fail; the next one must not.
  const uidValidity = await inbox().then(
    () => inbox(),
    () => inbox(),
  );
  expect(uidValidity.uidValidity).toBeGreaterThan(0);
});

test('an idle session may be silent for longer than a server that owes a response', async () => {
  const login = { user: settings.user, password: settings.password, imapPort: server.port };
  const [kept, other] = await Promise.all([
    openTestSession(login, { silenceMs: 200, idleMs: 20_000 }),
    openTestSession(login, { silenceMs: 200, idleMs: 0 }),
  ]);
  await waitFor(() => !other.client.usable);
  await openFolder(kept, 'INBOX');
  await kept.end();
});
