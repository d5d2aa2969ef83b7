import { describe, expect, it } from '@jest/globals';
import { eq } from 'drizzle-orm';
import { emails } from '../../../src/db/schema/index.ts';
import { scanBaseline } from '../../../src/mailbox/baseline.ts';
import { importMail } from '../../../src/mailbox/import.ts';
import { syncMailbox, syncOnce } from '../../../src/mailbox/sync-pass.ts';
import { verifyMailbox } from '../../../src/mailbox/verify.ts';
import { FakeImap, type FakeImapOptions, PLAIN } from '../../helpers/fakes/fake-imap.ts';
import { type Engine, engineTests } from '../../helpers/product/engine.ts';
import { mailText } from '../../helpers/product/mail-text.ts';

/** Mailboxes on servers that process only some of the messages that a command names (MESSAGELIMIT, RFC 9738). */

const { start } = engineTests();

const MESSAGES = 130;
const limit = { most: 40, from: 'highest' } as const;
const SERVERS: Record<string, FakeImapOptions> = {
  'announces it': { capabilities: `${PLAIN} MOVE MESSAGELIMIT=40`, limit: { ...limit, says: true } },
  'sends the code only': { capabilities: 'IMAP4rev1', limit: { ...limit, says: true } },
  'has MODSEQ': { capabilities: `${PLAIN} ENABLE CONDSTORE MESSAGELIMIT=40`, limit: { ...limit, says: true } },
  'has QRESYNC': { capabilities: `${PLAIN} ENABLE CONDSTORE QRESYNC MESSAGELIMIT=40`, limit: { ...limit, says: true } },
  'says nothing': { capabilities: `${PLAIN} MOVE`, limit },
  'says nothing and begins with the lowest': { capabilities: `${PLAIN} MOVE`, limit: { most: 40, from: 'lowest' } },
};

const signal = new AbortController().signal;

function arrive(server: FakeImap, count: number): void {
  for (let n = 0; n < count; n++) server.append('INBOX', mailText({ subject: `mail ${n}` }));
}

const startFull = (options: FakeImapOptions) => start(options, (server) => arrive(server, MESSAGES));
const emailsOf = ({ ctx }: Engine) => ctx.db.select().from(emails).where(eq(emails.accountId, ctx.account.id));
const counted = (events: string[]) =>
  Object.fromEntries([...new Set(events)].map((type) => [type, events.filter((each) => each === type).length]));
/** A pass that compares everything, as it is made every few minutes. */
const sync = ({ ctx }: Engine) => syncOnce(ctx, { changed: new Set(['INBOX']) });

describe.each(Object.entries(SERVERS))('on a server that %s', (_, options) => {
  it('an import has every message', async () => {
    const engine = await startFull(options);
    await importMail(engine.ctx, { since: new Date(0), signal, onProgress: () => {} });
    expect((await emailsOf(engine)).length).toBe(MESSAGES);
  });

  it.each([10, 90])('%i new messages are new, and no other is deleted', async (arrivals) => {
    const engine = await startFull(options);
    await scanBaseline(engine.ctx, signal);
    await importMail(engine.ctx, { since: new Date(0), signal, onProgress: () => {} });
    arrive(engine.server, arrivals);
    await sync(engine);
    await sync(engine);
    expect(counted(await engine.events())).toEqual({ 'email.new': arrivals });
    expect(await engine.folder('INBOX')).toMatchObject({ totalCount: MESSAGES + arrivals });
  });

  it('deleted and marked messages among the oldest are noticed', async () => {
    const engine = await startFull(options);
    await importMail(engine.ctx, { since: new Date(0), signal, onProgress: () => {} });
    await sync(engine);
    engine.server.remove('INBOX', 3);
    engine.server.setFlag('INBOX', 5, '\\Seen');
    await syncMailbox(engine.ctx, {
      changed: new Set(['INBOX']),
      missingBefore: true,
      freshSession: false,
      thorough: true,
    });
    await sync(engine);
    expect(counted(await engine.events())).toEqual({ 'email.update': 1, 'email.delete': 1 });
  });

  it('a verification finds no difference', async () => {
    const engine = await startFull(options);
    await scanBaseline(engine.ctx, signal);
    await sync(engine);
    expect(await verifyMailbox(engine.ctx, signal)).toMatchObject({ messages: MESSAGES, differences: 0, resolved: {} });
  });
});

describe('a server that leaves out a message', () => {
  async function startHiding(): Promise<Engine> {
    const engine = await startFull({ capabilities: PLAIN });
    await importMail(engine.ctx, { since: new Date(0), signal, onProgress: () => {} });
    await sync(engine);
    engine.server.script.answer = (text) => text.replace(' 50 ', ' ').replace(/^\* 50 FETCH .*\r\n/s, '');
    return engine;
  }

  it('deletes no email', async () => {
    const engine = await startHiding();
    arrive(engine.server, 1);
    await sync(engine);
    await sync(engine);
    expect(await engine.events()).toEqual(['email.new']);
  });

  it('stops no other folder while it has to map the UIDs', async () => {
    const engine = await startHiding();
    engine.server.createFolder('Elsewhere');
    engine.server.folder('INBOX').uidValidity += 1000;
    engine.server.append('Elsewhere', mailText({ subject: 'elsewhere' }));
    await sync(engine);
    expect((await engine.events()).filter((type) => type === 'email.new')).toHaveLength(1);
    engine.server.script = {};
    await sync(engine);
    await sync(engine);
    expect((await engine.events()).filter((type) => /email.(new|delete)$/.test(type))).toHaveLength(1);
  });

  it.each<[string, (text: string) => string]>([
    ['shows all but one', (text) => text.replace(' 50 ', ' ').replace(/^\* 50 FETCH .*\r\n/s, '')],
    ['counts one too many', (text) => text.replace(`* ${MESSAGES} EXISTS`, `* ${MESSAGES + 1} EXISTS`)],
  ])('fails an import, once all that it lists is imported (%s)', async (name, answer) => {
    const engine = await startFull({ capabilities: PLAIN });
    engine.server.script.answer = answer;
    const importing = importMail(engine.ctx, { since: new Date(0), signal, onProgress: () => {} });
    await expect(importing).rejects.toMatchObject({ detail: expect.stringContaining('left out messages') });
    expect((await emailsOf(engine)).length).toBe(name === 'shows all but one' ? MESSAGES - 1 : MESSAGES);
  });
});
