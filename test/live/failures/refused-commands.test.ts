import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { eq } from 'drizzle-orm';
import { accounts } from '../../../src/db/schema/index.ts';
import { FakeImap, PLAIN } from '../../helpers/fakes/fake-imap.ts';
import type { FakeSession } from '../../helpers/fakes/fake-imap-session.ts';
import type { Command } from '../../helpers/fakes/fake-imap-wire.ts';
import { waitFor } from '../../helpers/assert/wait.ts';
import { mailText } from '../../helpers/product/mail-text.ts';
import { openSyncGround, type SyncGround, WatchedAccount } from '../../helpers/product/watched-account.ts';

/**
 * A server refuses one command in one folder (`Odd`): the others get their new mail on the same connection, the account's
 * state names the folder and the command, nothing counts as deleted, and the folder is read once the server accepts the
 * command.
 */

interface Refusal {
  /** a pattern of its name */
  command: string;
  /** which of these commands, by its arguments; all by default */
  only?: RegExp;
  /** capabilities with which the command is sent */
  capabilities?: string;
  /** messages that are in the folder before */
  messages?: number;
  /** the folder is read all the same, by another command */
  isReplaced?: boolean;
}

const SYNCING = `${PLAIN} CONDSTORE QRESYNC`;
const OLD = 'IMAP4rev1 UIDPLUS';

const REFUSALS: Refusal[] = [
  { command: 'SELECT' },
  { command: 'UID FETCH' },
  { command: 'UID FETCH', only: /BODY\.PEEK\[\](?!.*HEADER)/ },
  { command: 'UID FETCH', only: /RFC822\.SIZE/, capabilities: OLD },
  { command: 'UID FETCH', only: /CHANGEDSINCE/, capabilities: SYNCING },
  { command: 'FETCH', only: /^\["1:\*",\["UID","FLAGS"\]\]$/, capabilities: OLD, isReplaced: true },
  { command: 'FETCH', capabilities: OLD, messages: 210, isReplaced: true },
  { command: 'UID SEARCH', capabilities: OLD, isReplaced: true },
  { command: 'STATUS', capabilities: OLD, isReplaced: true },
];

/** all commands that the servers got */
const sent = new Set<string>();

let ground: SyncGround;
let server: FakeImap;
let account: WatchedAccount;

beforeAll(async () => {
  ground = await openSyncGround();
});
afterAll(() => ground.close());
afterEach(async () => {
  await account.stop();
  await server.close();
  for (const { name } of server.log) sent.add(name);
  expect(account.failure).toBeUndefined();
});

async function watchedOn(capabilities: string, messages = 1): Promise<void> {
  server = await new FakeImap({ capabilities, folders: { Odd: [], Work: [] } }).listen();
  for (let count = 0; count < messages; count++) server.add('Odd', mailText({ subject: 'old' }));
  account = new WatchedAccount(ground, server.port, { pollMs: 100 });
  await account.connect();
}

/** Answers a command with `text` where it names, or is sent in, the folder `Odd`. */
function refuse({ command, only = /^/ }: Refusal, text: string): void {
  const isRefused = ({ name, args }: Command, { selected }: FakeSession) => {
    const isIt = new RegExp(`^(${command === 'SELECT' ? 'SELECT|EXAMINE' : command})$`).test(name);
    const isNamed = /^(SELECT|EXAMINE|STATUS)$/.test(name);
    const folder = isNamed ? args[0] : selected?.path;
    return isIt && folder === 'Odd' && only.test(JSON.stringify(args));
  };
  server.script.command = (each, session) => {
    if (!isRefused(each, session)) return false;
    if (command === 'SELECT') session.selected = undefined;
    session.done(each, text);
    return true;
  };
}

const failure = async () => {
  const { db } = ground.database.database;
  const [row] = await db.select().from(accounts).where(eq(accounts.id, account.id));
  return row?.watchFailure;
};

/** Adds a message to each of these folders, and waits for their events. */
async function newMailIn(...paths: string[]): Promise<void> {
  const before = (await account.summary()).length;
  for (const path of paths) server.add(path, mailText({ subject: 'new' }));
  server.tell();
  const expected = paths.map((path) => `email.new: ${path}`).sort();
  await waitFor(async () => (await account.summary()).length >= before + paths.length, {
    what: () => `${expected.join('; ')}; commands: ${server.log.slice(-12).map(({ name }) => name)}`,
  });
  expect((await account.summary()).slice(before).sort()).toEqual(expected);
}

async function passes(count: number): Promise<void> {
  const before = server.count('LIST');
  await waitFor(() => server.count('LIST') >= before + count, { what: 'further passes over the folders' });
}

describe.each(['NO out of order', 'NO [SERVERBUG] internal error', 'BAD invalid message set'])('%s', (text) => {
  it.each(REFUSALS.map((refusal) => [`${refusal.command} ${refusal.only?.source ?? ''}`, refusal] as const))(
    'to %s',
    async (_, refusal) => {
      const { command, capabilities = PLAIN, messages, isReplaced = false } = refusal;
      await watchedOn(capabilities, messages);
      const logins = server.count('LOGIN');
      refuse(refusal, text);
      if (isReplaced) {
        await newMailIn('INBOX', 'Odd', 'Work');
      } else {
        server.add('Odd', mailText({ subject: 'waits' }));
        const before = (await account.summary()).length;
        const summary = async () => (await account.summary()).filter((event) => event !== 'email.new: Odd');
        server.add('Work', mailText());
        server.add('INBOX', mailText());
        server.tell();
        await waitFor(async () => (await summary()).length >= 2, { what: 'the mail of the other folders' });
        expect(before).toBe(0);
        expect((await summary()).sort()).toEqual(['email.new: INBOX', 'email.new: Work']);
        await waitFor(failure, { what: 'the reason' });
        const verb = command.replace('UID ', '');
        expect(await failure()).toContain(`the IMAP server refused ${verb}:`);
        expect(await failure()).toContain(`(in the folder ${await account.folderId('Odd')})`);
      }
      server.script = {};
      await waitFor(async () => (await failure()) === '', { what: 'the folder to be read' });
      await passes(2);
      expect((await account.summary()).sort()).toEqual(['email.new: INBOX', 'email.new: Odd', 'email.new: Work']);
      expect(server.count('LOGIN') - logins).toBe(command === 'STATUS' ? 1 : 0);
    },
    30_000,
  );
});

describe('commands that name no folder', () => {
  it.each(['ID', 'ENABLE', 'NAMESPACE', 'NOTIFY', 'IDLE', 'NOOP', 'LSUB'])('%s may be refused', async (name) => {
    server = new FakeImap({ capabilities: `${SYNCING} NOTIFY`, folders: { Odd: [], Work: [] } });
    if (name === 'LSUB') server.capabilities = OLD;
    server.script.command = (each, session) => {
      if (each.name === name) session.done(each, 'BAD not known');
      return each.name === name;
    };
    await server.listen();
    account = new WatchedAccount(ground, server.port, { pollMs: 100 });
    await account.connect();
    await newMailIn('INBOX', 'Odd', 'Work');
    expect(server.count(name)).toBeGreaterThan(0);
  });
});

it('documents what the refusal of each command does', () => {
  const page = readFileSync(join(import.meta.dirname, '../../../docs/mail-servers.md'), 'utf8');
  const rows = page.split('\n').filter((line) => line.startsWith('| `'));
  const documented = rows.flatMap((row) =>
    [...(row.split('|')[1] ?? '').matchAll(/`([^`]+)`/g)].map(([, name]) => name),
  );
  expect(sent.size).toBeGreaterThan(10);
  expect([...sent].filter((name) => name !== 'DONE' && !documented.includes(name))).toEqual([]);
});

it('pauses longer the longer a folder is refused, and reads the folder to its end then', async () => {
  await watchedOn(PLAIN);
  refuse({ command: 'UID FETCH' }, 'NO not now');
  const uid = server.add('Odd', mailText());
  await waitFor(failure, { what: 'the reason' });
  await passes(30);
  const opened = server.log.filter(({ name, args }) => name === 'SELECT' && args[0] === 'Odd').length;
  await passes(20);
  const again = server.log.filter(({ name, args }) => name === 'SELECT' && args[0] === 'Odd').length;
  expect(again - opened).toBeLessThan(10);
  server.remove('Odd', uid);
  server.add('Odd', mailText());
  server.script = {};
  await waitFor(async () => (await failure()) === '', { what: 'the folder to be read' });
  expect(await account.summary()).toEqual(['email.new: Odd']);
});

it('reports nothing as deleted of a folder in which a command is refused', async () => {
  await watchedOn(OLD);
  await newMailIn('Odd');
  refuse({ command: '(UID )?FETCH' }, 'BAD invalid message set');
  server.remove('Odd', 2);
  server.add('Work', mailText());
  await waitFor(async () => (await account.summary()).length === 2, { what: 'the mail of the other folder' });
  await waitFor(failure, { what: 'the reason' });
  await passes(3);
  expect(await account.summary()).toEqual(['email.new: Odd', 'email.new: Work']);
  server.script = {};
  await waitFor(async () => (await account.summary()).includes('email.delete: Odd'), { what: 'the deletion' });
});

it.each(['NO [UNAVAILABLE] later', 'NO [LIMIT] too much', 'BAD Request is throttled.', 'NO [ALERT] see the web'])(
  'a refusal that concerns the account ends the watch: %s',
  async (text) => {
    await watchedOn(PLAIN);
    refuse({ command: 'UID FETCH' }, text);
    server.add('Odd', mailText());
    server.add('INBOX', mailText());
    server.tell();
    expect(await account.failed()).toMatchObject({ refused: true, command: 'FETCH' });
    account.failure = undefined;
  },
);

it('sends no command about messages to an empty folder, as Apache James refuses those', async () => {
  await watchedOn(SYNCING, 0);
  const isAboutMessages = ({ name }: Command) => /FETCH|SEARCH|STORE|EXPUNGE|COPY|MOVE/.test(name);
  const refused: string[] = [];
  server.script.command = (each, session) => {
    if (!isAboutMessages(each) || session.selected?.messages.length !== 0) return false;
    refused.push(each.name);
    session.done(each, 'BAD FETCH failed. Invalid messageset.');
    return true;
  };
  const folder = server.folder('Odd');
  server.add('Odd', mailText());
  folder.messages = [];
  await passes(3);
  await newMailIn('INBOX', 'Work');
  expect(refused).toEqual([]);
  expect(await failure()).toBe('');
});
