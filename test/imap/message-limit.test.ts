import { afterEach, describe, expect, it } from '@jest/globals';
import { expungeMessages } from '../../src/imap/expunge.ts';
import {
  fetchChanges,
  fetchFlags,
  fetchMeta,
  fetchMetaOf,
  fetchNewestFlags,
  fetchNewestMeta,
  fetchSources,
} from '../../src/imap/fetch.ts';
import { listAllUids, listUids, listUidsIn } from '../../src/imap/list-uids.ts';
import { copyMessages, moveMessages } from '../../src/imap/move.ts';
import { findByMessageId } from '../../src/imap/search.ts';
import { selectFolder } from '../../src/imap/select.ts';
import type { ImapSession } from '../../src/imap/session.ts';
import { storeFlags } from '../../src/imap/store.ts';
import { FakeImap, type FakeImapOptions, PLAIN } from '../helpers/fakes/fake-imap.ts';
import { openTestSession } from '../helpers/product/mail-session.ts';
import { mailText } from '../helpers/product/mail-text.ts';

/** Servers that process only some of the messages that a command names (MESSAGELIMIT, RFC 9738). */

const MESSAGES = 250;
const LIMIT = 40;
const UIDS = Array.from({ length: MESSAGES }, (_, index) => 2 * index + 1);
const MOVING = `${PLAIN} MOVE CONDSTORE QRESYNC`;

const announced = `${MOVING} MESSAGELIMIT=${LIMIT}`;
const SERVERS: Record<string, FakeImapOptions> = {
  'announces it': { capabilities: announced, limit: { most: LIMIT, says: true, from: 'highest' } },
  'announces it, and sends no code': { capabilities: announced, limit: { most: LIMIT, from: 'lowest' } },
  'sends the code only': { capabilities: MOVING, limit: { most: LIMIT, says: true, from: 'highest' } },
  'refuses more': { capabilities: announced, limit: { most: LIMIT, says: true, refuses: true, from: 'highest' } },
  'refuses more without having announced it': {
    capabilities: MOVING,
    limit: { most: LIMIT, says: true, refuses: true, from: 'highest' },
  },
  'refuses more, with a code without the limit': {
    capabilities: MOVING,
    limit: { most: LIMIT, says: true, code: 'MESSAGELIMIT', refuses: true, from: 'highest' },
  },
  'sends the code only, without UIDPLUS': {
    capabilities: 'IMAP4rev1 MOVE ENABLE CONDSTORE QRESYNC',
    limit: { most: LIMIT, says: true, from: 'lowest' },
  },
};
/** These say nothing, which is noticed by what they leave out of a listing. */
const SILENT: Record<string, FakeImapOptions> = {
  'keeps the highest silently': { capabilities: MOVING, limit: { most: LIMIT, from: 'highest' } },
  'sends a code without the limit': {
    capabilities: MOVING,
    limit: { most: LIMIT, says: true, code: 'MESSAGELIMIT', from: 'highest' },
  },
  'sends a code with the limit 0': {
    capabilities: `${MOVING} MESSAGELIMIT=0`,
    limit: { most: LIMIT, says: true, code: 'MESSAGELIMIT 0', from: 'highest' },
  },
  'sends a code with a huge limit': {
    capabilities: `${MOVING} MESSAGELIMIT=99999999999999999999`,
    limit: { most: LIMIT, says: true, code: 'MESSAGELIMIT 99999999999999999999', from: 'lowest' },
  },
  'keeps the lowest silently': { capabilities: MOVING, limit: { most: LIMIT, from: 'lowest' } },
};

const ends: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

async function serve(options: FakeImapOptions): Promise<{ server: FakeImap; session: ImapSession }> {
  const server = await new FakeImap({ ...options, folders: { Archive: [] } }).listen();
  ends.push(() => server.close());
  const inbox = server.folder('INBOX');
  for (const uid of UIDS) {
    inbox.uidNext = uid;
    const date = new Date(Date.UTC(2026, 0, 1 + uid));
    server.add('INBOX', mailText({ messageId: `<${uid}@limit.test>` }), { date });
  }
  const session = await openTestSession({ user: 'paula@example.test', password: 'secret', imapPort: server.port });
  ends.push(() => session.end());
  await selectFolder(session, 'INBOX');
  return { server, session };
}

const uidsOf = (rows: { uid: number }[]) => rows.map(({ uid }) => uid).sort((a, b) => a - b);

describe.each(Object.entries({ ...SERVERS, ...SILENT }))('a server that %s', (_, options) => {
  it('lists all UIDs', async () => {
    const { session } = await serve(options);
    expect(await listUids(session)).toEqual({ uids: UIDS, complete: true });
    expect(session.messageLimit).toBeLessThanOrEqual(LIMIT);
  });

  it('lists the UIDs since a day', async () => {
    const { session } = await serve(options);
    expect((await listUidsIn(session, { since: new Date(Date.UTC(2026, 0, 1)) })).uids).toEqual(UIDS);
  });

  it('gives the metadata of all messages', async () => {
    const { session } = await serve(options);
    expect(uidsOf(await fetchMeta(session, 100))).toEqual(UIDS.filter((uid) => uid >= 100));
    expect(uidsOf(await fetchMeta(session, 1))).toEqual(UIDS);
  });

  it('gives the metadata of those that are named', async () => {
    const { session } = await serve(options);
    expect(uidsOf(await fetchMetaOf(session, UIDS.slice(20, 190)))).toEqual(UIDS.slice(20, 190));
    expect(uidsOf(await fetchFlags(session, UIDS))).toEqual(UIDS);
  });

  it('gives the newest', async () => {
    const { session } = await serve(options);
    expect(uidsOf(await fetchNewestMeta(session, 120))).toEqual(UIDS.slice(-120));
    expect(uidsOf(await fetchNewestFlags(session, 120))).toEqual(UIDS.slice(-120));
    expect(uidsOf(await fetchNewestFlags(session))).toEqual(UIDS);
  });

  it('gives the bytes of all messages', async () => {
    const { session } = await serve(options);
    const { sources, remaining } = await fetchSources(session, UIDS, 1024 * 1024);
    expect([...sources.keys()].sort((a, b) => a - b)).toEqual(UIDS);
    expect(remaining.size).toBe(0);
  });
});

describe.each(Object.entries(SERVERS))('a server that %s', (_, options) => {
  it('shows changes of more messages than that', async () => {
    const { server, session } = await serve(options);
    const { modseq } = server.folder('INBOX');
    for (const uid of UIDS.slice(50, 200)) server.setFlag('INBOX', uid, '\\Seen');
    server.remove('INBOX', 3);
    await session.run('NOOP', () => session.client.noop());
    const changes = await fetchChanges(session, BigInt(modseq));
    expect(uidsOf(changes.flags)).toEqual(UIDS.slice(50, 200));
    expect(changes.vanished).toContainEqual({ from: 3, to: 3 });
  });

  it('shows the change of one of the oldest messages', async () => {
    const { server, session } = await serve(options);
    const { modseq } = server.folder('INBOX');
    for (const uid of [1, 499]) server.setFlag('INBOX', uid, '\\Seen');
    expect(uidsOf((await fetchChanges(session, BigInt(modseq))).flags)).toEqual([1, 499]);
  });

  it.each([1, 251, 499])('finds the message with UID %i by its Message-ID', async (uid) => {
    const { session } = await serve(options);
    expect(await findByMessageId(session, `<${uid}@limit.test>`)).toEqual([uid]);
  });

  it('sets the flags of all messages', async () => {
    const { server, session } = await serve(options);
    const flags = await storeFlags(session, UIDS, { add: ['\\Seen'] });
    expect([...flags.values()].filter((each) => each.has('\\Seen'))).toHaveLength(MESSAGES);
    expect(server.folder('INBOX').messages.filter(({ flags: each }) => each.has('\\Seen'))).toHaveLength(MESSAGES);
  });

  it.each([moveMessages, copyMessages])('transfers all messages once (%p)', async (transfer) => {
    const { server, session } = await serve(options);
    const { missing } = await transfer(session, [...UIDS, 2], 'Archive');
    expect(missing).toEqual([2]);
    expect(server.folder('Archive').messages).toHaveLength(MESSAGES);
    expect(server.folder('INBOX').messages).toHaveLength(transfer === moveMessages ? 0 : MESSAGES);
  });

  it('deletes the named messages, and no other that is marked', async () => {
    const { server, session } = await serve(options);
    const others = [1, 251, 497];
    for (const uid of others) server.setFlag('INBOX', uid, '\\Deleted');
    const named = UIDS.filter((uid) => !others.includes(uid));
    await expungeMessages(session, named);
    expect(uidsOf(server.folder('INBOX').messages)).toEqual(others);
    expect(server.folder('INBOX').messages.every(({ flags }) => flags.has('\\Deleted'))).toBe(true);
  });
});

it.each(['lowest', 'highest'] as const)('a limit below 20 that nothing states is kept too (%s)', async (from) => {
  const { server, session } = await serve({ capabilities: MOVING, limit: { most: 7, from } });
  expect(await listUids(session)).toEqual({ uids: UIDS, complete: true });
  expect(server.count('UID SEARCH')).toBeLessThan(200);
});

it('a message that the server never shows makes no limit', async () => {
  const { server, session } = await serve({ capabilities: PLAIN });
  server.script.answer = (text) => text.replace(' 251 ', ' ').replace(/^\* \d+ FETCH \(UID 251[ )].*\r\n/s, '');
  const { uids, complete } = await listUids(session);
  expect(uids).toEqual(UIDS.filter((uid) => uid !== 251));
  expect(complete).toBe(false);
  expect(session.messageLimit).toBe(Infinity);
  await expect(listAllUids(session)).rejects.toMatchObject({ detail: expect.stringContaining('left out messages') });
});

describe('a server that announces a limit and counts one message too few', () => {
  it.each([LIMIT, MESSAGES])('lists all of %i messages', async (limit) => {
    const { server, session } = await serve({
      capabilities: `${MOVING} MESSAGELIMIT=${limit}`,
      limit: { most: limit, says: true, from: 'highest' },
    });
    server.script.answer = (text) => text.replace(/^\* (\d+) EXISTS/, (_, count) => `* ${Number(count) - 1} EXISTS`);
    await selectFolder(session, 'INBOX');
    expect((await listUids(session)).uids).toEqual(UIDS);
    expect((await listUidsIn(session, { since: new Date(0) })).uids).toEqual(UIDS);
  });
});

it('a message that arrives before a listing of as many as the limit hides no other', async () => {
  const limit = { most: MESSAGES, from: 'highest' } as const;
  for (const capabilities of [MOVING, `${MOVING} MESSAGELIMIT=${MESSAGES}`]) {
    const { server, session } = await serve({ capabilities, limit });
    server.script.command = ({ name }, fake) => {
      if (name !== 'UID SEARCH') return;
      server.script = {};
      server.append('INBOX', mailText({}));
      fake.tellNews();
    };
    const { uids, complete } = await listUids(session);
    if (complete) expect(uids.filter((uid) => uid <= 499)).toEqual(UIDS);
    expect(await listUids(session)).toEqual({ uids: [...UIDS, 500], complete: true });
  }
});

it('a response is not compared with a listing where a longer one came before', async () => {
  const { server, session } = await serve({ capabilities: MOVING });
  await fetchMeta(session, 50);
  expect(server.count('UID SEARCH')).toBe(1);
  await fetchMeta(session, 60);
  await fetchMeta(session, 1);
  await fetchChanges(session, 1n);
  await fetchMetaOf(session, [...UIDS.slice(0, 30), 2]);
  expect(server.count('UID SEARCH')).toBe(1);
});

it('a folder does not look empty when the connection has ended', async () => {
  const { session } = await serve({ capabilities: MOVING });
  session.client.close();
  for (const read of [listUids, listAllUids, fetchNewestFlags]) {
    await expect(read(session)).rejects.toMatchObject({ code: 'provider_error' });
  }
});
