import { describe, expect, it } from '@jest/globals';
import { eq } from 'drizzle-orm';
import { accounts, emails, locations } from '../../../src/db/schema/index.ts';
import { DAY, HOUR, MINUTE } from '../../../src/duration.ts';
import { scanBaseline } from '../../../src/mailbox/baseline.ts';
import { importMail } from '../../../src/mailbox/import.ts';
import { STREAM_FROM_BYTES } from '../../../src/mailbox/ingest/fetch.ts';
import { createUndelivered } from '../../../src/mailbox/ingest/undelivered.ts';
import { syncMailbox } from '../../../src/mailbox/sync-pass.ts';
import { createLogger } from '../../../src/runtime/logger.ts';
import type { Command } from '../../helpers/fakes/fake-imap-wire.ts';
import { PLAIN } from '../../helpers/fakes/fake-imap.ts';
import type { FakeSession } from '../../helpers/fakes/fake-imap-session.ts';
import { type Engine, engineTests } from '../../helpers/product/engine.ts';
import { mailText } from '../../helpers/product/mail-text.ts';

/** Messages that a server lists and does not deliver. */

const { start } = engineTests();

/** What the server does when it should send the item of a message. */
type Fault = (row: string, item: string, session: FakeSession) => string;

const NO = 'NO [SERVERBUG] cannot read a message';
const FAULTS: Record<string, Fault> = {
  'is refused': () => '',
  'ends the connection': (_row, _item, session) => {
    session.socket.destroy();
    return '';
  },
  'comes as NIL': (row, item) => `${row.slice(0, row.indexOf(item) + item.length)} NIL)\r\n`,
};
const BODY = 'BODY[]';
const HEADER = 'BODY[HEADER.FIELDS (';

/** Makes the server fail at an item of one message. A command whose response has a row less is answered with NO. */
function breakMessage({ server }: Engine, subject: string, fault: Fault, item = BODY): void {
  const broken = new WeakSet<Command>();
  server.script.answer = (text, command, session) => {
    const { tag, name } = command;
    if (broken.has(command) && text.startsWith(`${tag} OK`)) return `${tag} ${NO}\r\n`;
    if (name !== 'UID FETCH' || !text.includes(item) || !text.includes(`Subject: ${subject}\r\n`)) return text;
    const answer = fault(text, item, session);
    if (answer === '') broken.add(command);
    return answer;
  };
}

/** An engine whose time passes as the test says. */
async function startAt(options?: Parameters<typeof start>[0], prepare?: Parameters<typeof start>[1]) {
  const engine = await start(options, prepare);
  const clock = { ms: 0 };
  return Object.assign(engine, { ctx: { ...engine.ctx, undelivered: unknownTo(clock) }, clock });
}

/** What a process knows that has just started. */
const unknownTo = (clock: { ms: number }) =>
  createUndelivered(createLogger('silent', 'test'), () => Date.now() + clock.ms);

/** Syncs on a new connection, as a watch does at each poll; `failures`: how many of them may fail before. */
async function sync(engine: Engine, failures = 0, thorough = true): Promise<void> {
  const session = await engine.ctx.reopen();
  try {
    await syncMailbox({ ...engine.ctx, session }, { freshSession: true, thorough });
  } catch (error) {
    if (failures === 0) throw error;
    await sync(engine, failures - 1, thorough);
  } finally {
    await session.end();
  }
}

const stored = async ({ ctx }: Engine) => {
  const rows = await ctx.db.select().from(emails).where(eq(emails.accountId, ctx.account.id));
  return rows.map(({ subject }) => subject).sort();
};

/** Imports on a new connection, as each attempt of the activity does. */
async function attemptImport(engine: Engine): Promise<'done' | 'failed'> {
  const session = await engine.ctx.reopen();
  const options = { since: new Date(0), signal: new AbortController().signal, onProgress: () => {} };
  return importMail({ ...engine.ctx, session }, options)
    .then(() => 'done' as const)
    .catch(() => 'failed' as const)
    .finally(() => session.end());
}

const append = ({ server }: Engine, ...subjects: string[]) =>
  subjects.forEach((subject) => server.append('INBOX', mailText({ subject })));

const isFetched = ({ server }: Engine) =>
  server.log.splice(0).some(({ name, args }) => name === 'UID FETCH' && JSON.stringify(args).includes('BODY.PEEK[]'));

it.each(Object.entries(FAULTS))(
  'a message that %s holds up no other, and is stored when it comes',
  async (_, fault) => {
    const engine = await startAt();
    append(engine, 'one', 'broken', 'three');
    breakMessage(engine, 'broken', fault);
    await sync(engine, 4);
    expect(await stored(engine)).toEqual(['one', 'three']);
    append(engine, 'later');
    await sync(engine, 1);
    expect(await stored(engine)).toEqual(['later', 'one', 'three']);
    await sync(engine, 1);
    expect((await engine.folder('INBOX')).uidNext).toBe(5);
    // not again at once
    isFetched(engine);
    await sync(engine);
    expect(isFetched(engine)).toBe(false);

    engine.server.script = {};
    engine.clock.ms = HOUR;
    await sync(engine);
    expect(await stored(engine)).toEqual(['broken', 'later', 'one', 'three']);
    expect(await engine.events()).toEqual(Array<string>(4).fill('email.new'));
  },
);

it.each(Object.entries(FAULTS))('a large message that %s holds up no other', async (_, fault) => {
  const engine = await startAt();
  append(engine, 'one');
  engine.server.append('INBOX', mailText({ subject: 'broken', text: 'large '.repeat(STREAM_FROM_BYTES / 6) }));
  append(engine, 'three');
  breakMessage(engine, 'broken', fault);
  // it is read in pieces, of which only the first has the header
  await sync(engine, 2);
  expect(await stored(engine)).toEqual(['one', 'three']);
});

it('a message of which not even the header is sent holds up no other', async () => {
  const engine = await startAt();
  append(engine, 'one', 'broken');
  breakMessage(engine, 'broken', () => '', HEADER);
  await sync(engine);
  append(engine, 'three');
  await sync(engine);
  expect(await stored(engine)).toEqual(['one', 'three']);
  engine.server.script = {};
  engine.clock.ms = HOUR;
  await sync(engine);
  expect(await stored(engine)).toEqual(['broken', 'one', 'three']);
});

it('a message at whose header the connection ends holds up no other, and the account names it', async () => {
  const engine = await startAt();
  append(engine, 'one', 'broken', 'three');
  breakMessage(engine, 'broken', FAULTS['ends the connection'] as Fault, HEADER);
  await sync(engine, 5);
  expect(await stored(engine)).toEqual(['one', 'three']);
  append(engine, 'later');
  await sync(engine);
  expect(await stored(engine)).toEqual(['later', 'one', 'three']);
  const [row] = await engine.ctx.db.select().from(accounts).where(eq(accounts.id, engine.ctx.account.id));
  expect(row?.watchFailure).toMatch(/^message not delivered: FETCH failed/);
  engine.server.script = {};
  engine.clock.ms = HOUR;
  await sync(engine);
  expect(await stored(engine)).toEqual(['broken', 'later', 'one', 'three']);
  expect(await engine.events()).toEqual(Array<string>(4).fill('email.new'));
});

it('older mail with a message at whose header the connection ends is scanned and imported without it', async () => {
  const engine = await startAt({}, (server) => {
    const date = new Date('2020-01-01');
    for (const subject of ['one', 'broken', 'three']) server.append('INBOX', mailText({ subject }), { date });
  });
  breakMessage(engine, 'broken', FAULTS['ends the connection'] as Fault, HEADER);
  const scan = async (failures: number): Promise<void> => {
    const session = await engine.ctx.reopen();
    const scanned = scanBaseline({ ...engine.ctx, session }, new AbortController().signal);
    const isScanned = await scanned.then(
      () => true,
      () => false,
    );
    await session.end();
    if (!isScanned && failures > 0) await scan(failures - 1);
  };
  await scan(5);
  expect((await engine.folder('INBOX')).scannedFrom).toBe(1);
  let outcome = await attemptImport(engine);
  for (const pause of IMPORT_PAUSES) {
    engine.clock.ms += pause;
    if (outcome !== 'done') outcome = await attemptImport(engine);
  }
  expect(outcome).toBe('done');
  expect(await stored(engine)).toEqual(['one', 'three']);
});

const SERVERS = {
  IMAP4rev1: 'IMAP4rev1',
  CONDSTORE: `${PLAIN} CONDSTORE`,
  QRESYNC: `${PLAIN} ENABLE CONDSTORE QRESYNC`,
};

describe.each(Object.entries(SERVERS))('a server with %s', (_, capabilities) => {
  const state = async ({ ctx }: Engine) => {
    const [row] = await ctx.db.select().from(accounts).where(eq(accounts.id, ctx.account.id));
    return row?.watchFailure;
  };

  it.each([
    ['a message', BODY],
    ['the header of one', HEADER],
  ])('that refuses %s is asked for it again by polls, and the account names the folder', async (_what, item) => {
    const engine = await startAt({ capabilities });
    append(engine, 'broken');
    breakMessage(engine, 'broken', () => '', item);
    for (let poll = 0; poll < 3; poll++) await sync(engine, 0, false);
    const inbox = await engine.folder('INBOX');
    expect(await state(engine)).toBe(
      `message not delivered: the IMAP server refused FETCH: cannot read a message (in the folder ${inbox.id})`,
    );
    expect(inbox.uidNext).toBe(2);
    await sync(engine, 0, false);
    expect(await state(engine)).toContain('refused FETCH');
    engine.server.script = {};
    engine.clock.ms = HOUR;
    await sync(engine, 0, false);
    expect(await stored(engine)).toEqual(['broken']);
    expect(await engine.events()).toEqual(['email.new']);
    await sync(engine, 0, false);
    expect(await state(engine)).toBe('');
  });

  it('is asked again for a message by another process', async () => {
    const engine = await startAt({ capabilities });
    append(engine, 'one', 'broken');
    breakMessage(engine, 'broken', () => '');
    for (let poll = 0; poll < 3; poll++) await sync(engine, 0, false);
    engine.server.script = {};
    engine.ctx.undelivered = unknownTo(engine.clock);
    await sync(engine, 0, false);
    expect(await stored(engine)).toEqual(['broken', 'one']);
  });

  it('deletes another message while one is not delivered, and that one', async () => {
    const engine = await startAt({ capabilities });
    append(engine, 'one', 'broken', 'three');
    breakMessage(engine, 'broken', () => '');
    for (let poll = 0; poll < 3; poll++) await sync(engine, 0, false);
    engine.server.remove('INBOX', 1);
    await sync(engine, 0, false);
    expect(await stored(engine)).toEqual(['three']);
    expect(await state(engine)).toContain('refused FETCH');
    engine.server.remove('INBOX', 2);
    await sync(engine, 0, false);
    await sync(engine, 0, false);
    expect(await state(engine)).toBe('');
    isFetched(engine);
    engine.clock.ms = HOUR;
    await sync(engine, 0, false);
    expect(isFetched(engine)).toBe(false);
  });
});

it.each([BODY, HEADER])('damaged messages before others hold them up no longer than a few passes: %s', async (item) => {
  const engine = await startAt();
  append(engine, 'broken', 'broken', 'broken', 'four');
  breakMessage(engine, 'broken', () => '', item);
  for (let pass = 0; pass < 20 && (await stored(engine)).length === 0; pass++) await sync(engine);
  expect(await stored(engine)).toEqual(['four']);
  // a process that knows nothing of them
  engine.ctx.undelivered = unknownTo(engine.clock);
  append(engine, 'five');
  await sync(engine);
  expect(await stored(engine)).toEqual(['five', 'four']);
  engine.server.script = {};
  engine.clock.ms = HOUR;
  await sync(engine);
  expect(await stored(engine)).toEqual(['broken', 'broken', 'broken', 'five', 'four']);
});

it('a message from before the connect of which the scan gets no header is not new when the header comes', async () => {
  const engine = await startAt({}, (server) => {
    const date = new Date('2020-01-01');
    for (const subject of ['one', 'broken', 'three']) server.append('INBOX', mailText({ subject }), { date });
  });
  breakMessage(engine, 'broken', () => '', HEADER);
  await scanBaseline(engine.ctx, new AbortController().signal);
  engine.server.script = {};
  const located = async () => {
    const rows = await engine.ctx.db.select().from(locations).where(eq(locations.accountId, engine.ctx.account.id));
    return rows.map(({ uid, emailId }) => `${uid} ${emailId === null ? 'baseline' : 'email'}`).sort();
  };
  expect(await located()).toEqual(['1 baseline', '3 baseline']);
  await sync(engine);
  expect(await located()).toEqual(['1 baseline', '2 baseline', '3 baseline']);
  expect(await engine.events()).toEqual([]);
  expect(await attemptImport(engine)).toBe('done');
  expect(await stored(engine)).toEqual(['broken', 'one', 'three']);
});

it('a folder in which every message is refused keeps its cursor', async () => {
  const engine = await startAt();
  append(engine, 'one', 'two', 'three', 'four');
  engine.server.script.command = (command, session) => {
    if (command.name !== 'UID FETCH' || !JSON.stringify(command.args).includes('BODY.PEEK[]')) return false;
    session.done(command, NO);
    return true;
  };
  for (let n = 0; n < 5; n++) await sync(engine);
  expect((await engine.folder('INBOX')).uidNext).toBe(1);
  engine.server.script = {};
  await sync(engine);
  expect(await stored(engine)).toEqual(['four', 'one', 'three', 'two']);
});

it('a message that is not delivered for a day is stored as older mail is: nothing looks for it any longer', async () => {
  const engine = await startAt();
  append(engine, 'one', 'broken');
  breakMessage(engine, 'broken', FAULTS['is refused'] as Fault);
  for (const ms of [0, 0, 2 * MINUTE, 10 * MINUTE, HOUR, 2 * HOUR, DAY + HOUR]) {
    engine.clock.ms = ms;
    await sync(engine);
  }
  const found = await engine.ctx.db.select().from(locations).where(eq(locations.accountId, engine.ctx.account.id));
  expect(found.map(({ uid, emailId }) => [uid, emailId !== null]).sort()).toEqual([
    [1, true],
    [2, false],
  ]);
  engine.server.log.length = 0;
  engine.clock.ms = 2 * DAY;
  await sync(engine);
  expect(engine.server.log.some(({ name }) => name === 'UID SEARCH')).toBe(false);
});

/** Milliseconds until each further attempt of an import: initialSync makes five. */
const IMPORT_PAUSES = [2, 6, 18, 54].map((seconds) => seconds * 1000);

describe.each(['broken', 'one'])('an import in which the newest message is %s', (newest) => {
  const subjects = ['broken', 'three', 'one'].sort((a, b) => Number(a === newest) - Number(b === newest));
  const faults = [
    ...Object.entries(FAULTS).map(([name, fault]) => [name, fault, BODY] as const),
    ['has a header that is refused', () => '', HEADER] as const,
  ];
  it.each(faults)('ends without a message that %s', async (_, fault, item) => {
    const engine = await startAt({}, (server) => {
      for (const subject of subjects) server.append('INBOX', mailText({ subject }));
    });
    breakMessage(engine, 'broken', fault, item);
    expect(await attemptImport(engine)).toBe('failed');
    expect(await stored(engine)).toEqual(['one', 'three']);
    let outcome = '';
    for (const pause of IMPORT_PAUSES) {
      engine.clock.ms += pause;
      if (outcome !== 'done') outcome = await attemptImport(engine);
    }
    expect(outcome).toBe('done');
    expect(await stored(engine)).toEqual(['one', 'three']);
    expect(await engine.events()).toEqual([]);
  });
});

it.each([BODY, HEADER])(
  'an import ends without several messages that are refused, in any process: %s',
  async (item) => {
    const engine = await startAt({}, (server) => {
      for (const subject of ['broken', 'broken', 'broken', 'three']) server.append('INBOX', mailText({ subject }));
    });
    breakMessage(engine, 'broken', () => '', item);
    expect(await attemptImport(engine)).toBe('failed');
    engine.ctx.undelivered = unknownTo(engine.clock);
    let outcome = '';
    for (const pause of [0, ...IMPORT_PAUSES]) {
      engine.clock.ms += pause;
      if (outcome !== 'done') outcome = await attemptImport(engine);
    }
    expect(outcome).toBe('done');
    expect(await stored(engine)).toEqual(['three']);
  },
);

it('a mailbox whose connections sometimes end is imported whole, a part in each', async () => {
  const engine = await startAt({}, (server) => {
    for (let n = 0; n < 120; n++) server.append('INBOX', mailText({ subject: `mail ${n}` }));
  });
  let fetches = 0;
  engine.server.script.command = ({ name, args }, session) => {
    if (name !== 'UID FETCH' || !JSON.stringify(args).includes('BODY.PEEK[]') || ++fetches % 3 > 0) return false;
    session.socket.destroy();
    return true;
  };
  let attempts = 0;
  for (let isDone = false; !isDone; attempts++) isDone = (await attemptImport(engine)) === 'done';
  expect(await stored(engine)).toHaveLength(120);
  // in the first one 50 messages, then 8 with each command, and some alone
  expect(attempts).toBeLessThan(20);
});

it('the UIDs of a folder are mapped past a chunk of which no header is sent', async () => {
  const engine = await startAt();
  for (let n = 0; n < 1_000; n++) append(engine, `mail ${n}`);
  append(engine, 'broken', 'broken', 'broken', 'broken');
  breakMessage(engine, 'broken', () => '', HEADER);
  await sync(engine);
  const ids = async () => {
    const rows = await engine.ctx.db.select().from(emails).where(eq(emails.accountId, engine.ctx.account.id));
    return rows.map(({ id }) => id).sort();
  };
  const before = await ids();
  expect(before).toHaveLength(1_000);
  const inbox = engine.server.folder('INBOX');
  inbox.uidValidity += 1_000;
  inbox.messages.forEach((message, index) => (message.uid = 5_001 + index));
  inbox.uidNext = 5_001 + inbox.messages.length;
  await sync(engine);
  expect((await engine.folder('INBOX')).uidValidity).toBe(inbox.uidValidity);
  append(engine, 'later');
  engine.server.script = {};
  engine.clock.ms = HOUR;
  await sync(engine);
  expect(await stored(engine)).toHaveLength(1_005);
  expect(await ids()).toEqual(expect.arrayContaining(before));
  expect(await engine.events()).toEqual(Array<string>(1_005).fill('email.new'));
});

it('a folder of which no message is sent keeps its emails when its UIDVALIDITY changes', async () => {
  const engine = await startAt();
  append(engine, 'one', 'two');
  await sync(engine);
  const inbox = engine.server.folder('INBOX');
  inbox.uidValidity += 1_000;
  breakMessage(engine, 'one', () => '', HEADER);
  const { answer } = engine.server.script;
  engine.server.script.answer = (text, command, session) =>
    answer!(text.replace('Subject: two', 'Subject: one'), command, session);
  await sync(engine);
  engine.server.script = {};
  engine.clock.ms = HOUR;
  await sync(engine);
  expect((await engine.folder('INBOX')).uidValidity).toBe(inbox.uidValidity);
  expect(await engine.events()).toEqual(['email.new', 'email.new']);
});

it('the scan of older mail passes a chunk of which no header is sent', async () => {
  const engine = await startAt({}, (server) => {
    const date = new Date('2020-01-01');
    const subjects = [...Array<string>(4).fill('broken'), ...Array<string>(1_000).fill('older')];
    for (const subject of subjects) server.append('INBOX', mailText({ subject }), { date });
  });
  breakMessage(engine, 'broken', () => '', HEADER);
  await scanBaseline(engine.ctx, new AbortController().signal);
  expect((await engine.folder('INBOX')).scannedFrom).toBe(1);
});
