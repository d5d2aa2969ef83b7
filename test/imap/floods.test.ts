import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { fetchNewestFlags, fetchMeta } from '../../src/imap/fetch.ts';
import { listenForChanges } from '../../src/imap/idle.ts';
import { listFoldersWithStatus } from '../../src/imap/list.ts';
import { listUids } from '../../src/imap/list-uids.ts';
import { selectFolder } from '../../src/imap/select.ts';
import type { ImapSession } from '../../src/imap/session.ts';
import { MailError } from '../../src/mail-wire/mail-error.ts';
import { measureHeld } from '../helpers/assert/held.ts';
import { waitFor } from '../helpers/assert/wait.ts';
import { at, FLOODS } from '../helpers/fakes/flood-scripts.ts';
import { type FloodServer, startFloodServer } from '../helpers/fakes/flood-server.ts';
import { FakeImap, PLAIN } from '../helpers/fakes/fake-imap.ts';
import { openTestSession } from '../helpers/product/mail-session.ts';
import { mailText } from '../helpers/product/mail-text.ts';
import { isLong } from '../helpers/runner/long.ts';

/** Servers that send without end, at any time: the connection ends, and other work of the process gets its turn. */

const HELD_MS = 200;
const LISTEN_MS = 20_000;

const ends: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

async function open(port: number): Promise<ImapSession> {
  const session = await openTestSession({ user: 'paula@example.test', password: 'secret', imapPort: port });
  ends.push(() => session.end());
  return session;
}

/** All that a watch does on a connection. */
async function follow(port: number): Promise<void> {
  const session = await open(port);
  await listFoldersWithStatus(session);
  const listener = await listenForChanges(session);
  await selectFolder(session, 'INBOX');
  await listUids(session);
  await fetchMeta(session, 1);
  const over = AbortSignal.timeout(LISTEN_MS);
  while (!over.aborted) {
    await listener.wait(LISTEN_MS, over);
    listener.take();
    session.assertOpen();
  }
}

/** Each of these is much like another one, and is part of `npm run test:long`. */
const LONG = new Set([
  'FETCH lines of a large folder',
  'LIST lines with literals',
  'EXISTS while idling',
  'LOGIN lines',
]);

describe('a flood', () => {
  let server: FloodServer;
  beforeAll(async () => {
    server = await startFloodServer();
  });
  afterAll(() => server.stop());

  /** How long the flood holds the event loop, ms; it ends as one that sends too much. */
  async function heldBy(name: string): Promise<number> {
    await server.flood(name);
    const stop = measureHeld();
    const error: unknown = await follow(server.port).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(MailError);
    expect(error).toMatchObject({ flooded: true, detail: expect.stringMatching(/: the response was too large$/) });
    return stop();
  }

  test.each(Object.keys(FLOODS).filter((name) => isLong() || !LONG.has(name)))('of %s', async (name) => {
    // the code may have to be compiled the first time, and garbage of other files of the process be collected
    let least = Infinity;
    for (let round = 0; round < 4 && least >= HELD_MS; round++) least = Math.min(least, await heldBy(name));
    expect(least).toBeLessThan(HELD_MS);
  });
});

describe('a large mailbox', () => {
  const MESSAGES = 100_000;
  const changes = (tag = '') =>
    Array.from({ length: MESSAGES }, (_, n) => `* ${n + 1} FETCH (UID ${n + 1} FLAGS (\\Seen))\r\n`).join('') + tag;

  async function largeServer(): Promise<FakeImap> {
    const server = await new FakeImap({ capabilities: PLAIN }).listen();
    ends.push(() => server.close());
    server.add('INBOX', mailText());
    server.script.answer = (text) => text.replace('* 1 EXISTS', `* ${MESSAGES} EXISTS`);
    return server;
  }

  test('whose flags are all read', async () => {
    const server = await largeServer();
    const session = await open(server.port);
    await selectFolder(session, 'INBOX');
    server.script.command = at('FETCH', (fake, tag) => fake.write(changes(`${tag} OK done\r\n`)));
    expect(await fetchNewestFlags(session)).toHaveLength(MESSAGES);
  });

  test('whose flags are all changed by another program while we idle', async () => {
    const server = await largeServer();
    const session = await open(server.port);
    const listener = await listenForChanges(session);
    await selectFolder(session, 'INBOX');
    server.script.command = at('IDLE', (fake) => fake.write(`+ idling\r\n${changes('* 1 EXPUNGE\r\n')}`));
    let expunged = false;
    session.client.on('expunge', () => {
      expunged = true;
    });
    await listener.wait(LISTEN_MS, AbortSignal.timeout(LISTEN_MS));
    await waitFor(() => expunged || !session.client.usable, { timeoutMs: LISTEN_MS, what: 'the last of the changes' });
    session.assertOpen();
  });
});
