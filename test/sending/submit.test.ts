import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { MockActivityEnvironment } from '@temporalio/testing';
import { eq } from 'drizzle-orm';
import { createSendActivities } from '../../src/activities/send-email.ts';
import type { SendInput } from '../../src/contract/sending.ts';
import { accounts, drafts, emails, folders, locations, sends } from '../../src/db/schema/index.ts';
import { findTracking } from '../../src/db/queries/tracking.ts';
import { weakIdentityOf } from '../../src/imap/identity.ts';
import { createSessionPool, type SessionPool } from '../../src/imap/pool.ts';
import { createLogger } from '../../src/runtime/logger.ts';
import { createUndelivered } from '../../src/mailbox/ingest/undelivered.ts';
import { loadSyncSettings, sealCredentials } from '../../src/mailbox/settings.ts';
import { createMailParser, type MailParser } from '../../src/mime/parser.ts';
import { newId } from '../../src/new-id.ts';
import { createSecrets } from '../../src/security/secrets.ts';
import type { LoadedSend } from '../../src/sending/compose.ts';
import { fileSentCopy, finishSend } from '../../src/sending/file-sent-copy.ts';
import { inputKeyOf, storeInput } from '../../src/outgoing/outgoing-input.ts';
import { reserveDraft } from '../../src/outgoing/draft-state.ts';
import { loadSend, type NewSend, recordSend, renewQueuedSend } from '../../src/outgoing/send-state.ts';
import { sendOnce, type SubmitDeps } from '../../src/sending/submit.ts';
import type { Submission } from '../../src/smtp/session.ts';
import { SubmitError, type Submitter } from '../../src/smtp/submit.ts';
import { openStorage } from '../../src/storage/storage.ts';
import { FakeImap } from '../helpers/fakes/fake-imap.ts';
import { LOOPBACK, testTokens } from '../helpers/product/mail-session.ts';
import { mailText } from '../helpers/product/mail-text.ts';
import { testDatabase, type TestDatabase } from '../helpers/servers/postgres.ts';
import { storeEmail, storeFolder } from '../helpers/assert/rows.ts';
import { storeAccount } from '../helpers/product/stored-account.ts';
import { waitFor } from '../helpers/assert/wait.ts';

let test: TestDatabase;
let dir: string;
let imap: FakeImap;
let sessions: SessionPool;
let deps: SubmitDeps;
let accountId: string;
/** messages that the SMTP server is asked to accept */
let submitted: Submission[];
/** lets the SMTP server respond */
let respond: () => void;

const secrets = createSecrets({ current: randomBytes(32) });
const logger = createLogger('silent', 'test');

beforeAll(async () => {
  test = await testDatabase();
  dir = await mkdtemp(join(tmpdir(), 'submit-test-'));
});
afterAll(async () => {
  await test.drop();
  await rm(dir, { recursive: true, force: true });
});

beforeEach(async () => {
  imap = await new FakeImap({ folders: { Drafts: ['\\Drafts'], Sent: ['\\Sent'] } }).listen();
  sessions = createSessionPool({ outbound: LOOPBACK });
  accountId = await storeAccount(test.database);
  const credentials = sealCredentials(secrets, accountId, { imapPassword: 'secret', smtpPassword: 'secret' });
  const imapSide = { imapHost: '127.0.0.1', imapPort: imap.port, imapEncryption: 'NONE' };
  await test.database.db
    .update(accounts)
    .set({ ...imapSide, credentials })
    .where(eq(accounts.id, accountId));
  submitted = [];
  const responding = new Promise<void>((resolve) => (respond = resolve));
  deps = {
    db: test.database.db,
    storage: openStorage(pathToFileURL(dir).href),
    parser: { parse: () => Promise.reject(new Error('no parser')) } as unknown as MailParser,
    logger,
    secrets,
    tokens: testTokens({ db: test.database.db, secrets }),
    outbound: LOOPBACK,
    sessions,
    undelivered: createUndelivered(logger),
    tempDir: dir,
    publicUrl: 'http://127.0.0.1:3000',
    markDisconnected: async () => {},
    submitter: {
      async submit(_account, _smtp, message) {
        submitted.push(message);
        await responding;
        await message.beforeData();
        return { rejected: [] };
      },
      drop: async () => {},
      close: async () => {},
    },
  };
});
afterEach(async () => {
  respond();
  await sessions.close();
  await imap.close();
  jest.restoreAllMocks();
});

const MAIL: SendInput = { to: [{ email: 'bea@elsewhere.test' }], subject: 'Hello', plain_text: 'Hi' };

async function load(sendId: string): Promise<LoadedSend> {
  const [send, settings] = [await loadSend(deps.db, accountId, sendId), await loadSyncSettings(deps.db, accountId)];
  if (!send || !settings) throw new Error('no such send');
  return { send, settings };
}

async function record(given: Partial<NewSend> = {}, input?: SendInput): Promise<LoadedSend> {
  const id = newId('email');
  const inputKey = input ? inputKeyOf(accountId, id) : null;
  const own = { apiKeyId: 'pk_1', apiKeyName: 'key', metadata: null, trackingId: null, tracking: null };
  await recordSend(deps.db, { ...own, id, accountId, draftId: null, inputKey, ...given });
  if (input && inputKey) await storeInput(deps.storage, inputKey, { input });
  return load(id);
}

/** The folder Drafts in the store. @returns its id */
async function storeDrafts(): Promise<string> {
  const folderId = await storeFolder(test.database, accountId, { role: 'DRAFTS' });
  const { uidValidity } = imap.folder('Drafts');
  await deps.db.update(folders).set({ path: 'Drafts', uidValidity }).where(eq(folders.id, folderId));
  return folderId;
}

/** A send of a draft that is in the mailbox and in the store. */
async function recordDraftSend(folderId: string, html?: string, given: Partial<NewSend> = {}): Promise<LoadedSend> {
  const { db } = deps;
  const { id, draftId, storageKey } = await storeEmail(test.database, accountId, { draft: true, folders: [folderId] });
  const source = mailText({ to: 'bea@elsewhere.test', subject: 'a draft', ...(html ? { html } : {}) });
  const uid = imap.add('Drafts', source, { flags: ['\\Draft'] });
  const messageId = /^Message-ID: (.*)$/im.exec(source.toString())?.[1] ?? null;
  const weakIdentity = weakIdentityOf({ messageId, size: source.length });
  await db.update(locations).set({ uid, weakIdentity }).where(eq(locations.emailId, id));
  await deps.storage.put(storageKey, source);
  return recordOf(draftId, given);
}

/** A send of a draft, which it reserves. */
async function recordOf(draftId: string | null, given: Partial<NewSend> = {}): Promise<LoadedSend> {
  const loaded = await record({ ...given, draftId });
  await deps.db.transaction((tx) => reserveDraft(tx, draftId ?? '', loaded.send.id));
  return loaded;
}

const states = async (sends: LoadedSend[]) =>
  Promise.all(sends.map(async ({ send }) => (await loadSend(deps.db, accountId, send.id))?.state));

it('sends of small drafts do not wait for one another while SMTP servers are slow', async () => {
  const folderId = await storeDrafts();
  const sends = [];
  for (let n = 0; n < 4; n++) sends.push(await recordDraftSend(folderId));
  const outcomes = Promise.all(sends.map((loaded) => sendOnce(deps, loaded)));
  await waitFor(() => submitted.length === 4);
  respond();
  expect((await outcomes).map(({ firstCopy }) => firstCopy !== null)).toEqual([true, true, true, true]);
  expect(await states(sends)).toEqual(['sent', 'sent', 'sent', 'sent']);
  const rows = await deps.db.select({ state: drafts.state }).from(drafts).where(eq(drafts.accountId, accountId));
  expect(rows.map(({ state }) => state)).toEqual(['sent', 'sent', 'sent', 'sent']);
});

it.each([
  ['is not sent again when Sent has its copy', true, 0],
  ['is sent when Sent has no copy', false, 1],
])('a draft whose send had an unknown outcome %s', async (_what, isFiled, count) => {
  const first = await recordDraftSend(await storeDrafts());
  const lose = () => Promise.reject(new SubmitError('unknown', 'provider_error', 'the connection ended'));
  const losing = {
    ...deps.submitter,
    submit: async (...[, , { beforeData }]: Parameters<Submitter['submit']>) => (await beforeData(), lose()),
  };
  await expect(sendOnce({ ...deps, submitter: losing }, first)).rejects.toMatchObject({ code: 'provider_error' });
  expect(await states([first])).toEqual(['unknown']);
  const messageId = (await loadSend(deps.db, accountId, first.send.id))?.messageId ?? '';
  if (isFiled) imap.add('Sent', Buffer.from(`Message-ID: ${messageId}\r\n\r\nx\r\n`));
  const again = await recordOf(first.send.draftId);
  respond();
  await sendOnce(deps, again);
  expect(submitted).toHaveLength(count);
  expect(await states([first, again])).toEqual(['unknown', 'sent']);
});

it.each(['', 'HEADER'])(
  'a draft is not sent again when the copy in Sent has another Message-ID, which the provider gave it; without SEARCH %s',
  async (refused) => {
    const smtpHost = 'smtp-mail.outlook.com';
    await deps.db.update(accounts).set({ smtpHost }).where(eq(accounts.id, accountId));
    const first = await recordDraftSend(await storeDrafts());
    const lose = () => Promise.reject(new SubmitError('unknown', 'provider_error', 'the connection ended'));
    const losing = {
      ...deps.submitter,
      submit: async (...[, , { beforeData }]: Parameters<Submitter['submit']>) => (await beforeData(), lose()),
    };
    await expect(sendOnce({ ...deps, submitter: losing }, first)).rejects.toMatchObject({ code: 'provider_error' });
    const messageId = (await loadSend(deps.db, accountId, first.send.id))?.messageId ?? '';
    const theirs = '<theirs@prod.outlook.com>';
    const copy = `Message-ID:\r\n ${theirs}\r\nX-Microsoft-Original-Message-ID:\r\n ${messageId}\r\n\r\nx\r\n`;
    imap.add('Sent', Buffer.from(copy));
    const searches: string[] = [];
    imap.script.command = (command, session) => {
      if (command.name !== 'UID SEARCH') return false;
      searches.push(command.args.map(String).join(' '));
      if (!refused || !command.args.includes(refused)) return false;
      session.done(command, 'BAD unknown search key');
      return true;
    };
    const again = await recordOf(first.send.draftId);
    respond();
    const { send } = await sendOnce(deps, again);
    expect(submitted).toHaveLength(0);
    expect(send).toMatchObject({ state: 'sent', messageId, serverMessageId: theirs });
    expect(await loadSend(deps.db, accountId, again.send.id)).toMatchObject({ messageId, serverMessageId: theirs });
    expect(searches[0]).toMatch(/^OR HEADER message-id <.*> HEADER x-microsoft-original-message-id </i);
  },
);

it.each(['', ', and that the watch has stored before'])(
  'a send whose response was lost is found by a copy to which the provider gave another Message-ID%s',
  async (stored) => {
    await deps.db.update(accounts).set({ smtpHost: 'smtp.office365.com' }).where(eq(accounts.id, accountId));
    const loaded = await record({}, MAIL);
    const theirs = '<theirs@prod.outlook.com>';
    const submit = async (...[, , { source, beforeData }]: Parameters<Submitter['submit']>) => {
      await beforeData();
      const copy = source
        .toString()
        .replace('Message-ID:', `Message-ID: ${theirs}\r\nX-Microsoft-Original-Message-ID:`);
      imap.add('Sent', Buffer.from(copy));
      throw new SubmitError('unknown', 'provider_error', 'the connection ended');
    };
    const storeIn = async (role: 'INBOX' | 'SENT', path: string) => {
      const folderId = await storeFolder(test.database, accountId, { role });
      await deps.db.update(folders).set({ path }).where(eq(folders.id, folderId));
      return (await storeEmail(test.database, accountId, { messageId: theirs, folders: [folderId] })).id;
    };
    // the sender is a recipient, too
    const received = stored ? await storeIn('INBOX', 'INBOX') : undefined;
    const known = stored ? await storeIn('SENT', 'Sent') : undefined;
    const parser = createMailParser({ threads: 1, tempDir: dir });
    const losing = { ...deps, parser, outcomeWaitMs: 50, submitter: { ...deps.submitter, submit } };
    try {
      const { send } = await sendOnce(losing, loaded);
      expect(send).toMatchObject({ state: 'sent', serverMessageId: theirs });
      expect(await loadSend(deps.db, accountId, send.id)).toMatchObject({ state: 'sent', serverMessageId: theirs });
      expect(await fileSentCopy(losing, { ...loaded, send }, { appendAnyway: true, search: true })).toBe('done');
      expect(imap.folder('Sent').messages).toHaveLength(1);
      expect((await load(send.id)).send.result?.emailId).toBe(known);
      const rows = await deps.db.select({ id: emails.id }).from(emails).where(eq(emails.accountId, accountId));
      expect(rows.map(({ id }) => id).sort()).toEqual([received ?? [], known ?? send.id].flat().sort());
    } finally {
      await parser.close();
    }
  },
);

it('a draft that is sent again after an unknown outcome leaves the links of the first email alone', async () => {
  const folderId = await storeDrafts();
  const tracked = { trackingId: newId('tracking'), tracking: { links: true } };
  const first = await recordDraftSend(folderId, '<a href="https://one.test/">x</a>', tracked);
  const second = await recordDraftSend(folderId, '<a href="https://two.test/">x</a>', tracked);
  const lose = () => Promise.reject(new SubmitError('unknown', 'provider_error', 'the connection ended'));
  const submit = async (...[, , { beforeData }]: Parameters<Submitter['submit']>) => (await beforeData(), lose());
  await expect(sendOnce({ ...deps, submitter: { ...deps.submitter, submit } }, first)).rejects.toThrow();
  respond();
  await sendOnce(deps, second);
  const trackingId = (await load(second.send.id)).send.trackingId ?? '';
  const records = await Promise.all([tracked.trackingId, trackingId].map((id) => findTracking(deps.db, id)));
  expect(records).toMatchObject([
    { emailId: first.send.id, links: ['https://one.test/'] },
    { emailId: second.send.id, links: ['https://two.test/'] },
  ]);
});

/** Makes a send as old as one whose reservation has expired. */
const outage = ({ send }: LoadedSend, values: Partial<typeof sends.$inferInsert> = {}) =>
  deps.db
    .update(sends)
    .set({ updatedAt: new Date(Date.now() - 20 * 60_000), ...values })
    .where(eq(sends.id, send.id));

it('a draft leaves once, although its send comes back from an outage after another one has reserved it', async () => {
  const first = await recordDraftSend(await storeDrafts());
  await outage(first);
  const second = await recordOf(first.send.draftId);
  respond();
  const [late, sent] = await Promise.allSettled([sendOnce(deps, first), sendOnce(deps, second)]);
  expect([late, sent]).toMatchObject([
    { status: 'rejected', reason: { code: 'provider_error', detail: 'the message was not sent' } },
    { status: 'fulfilled' },
  ]);
  expect(await states([first, second])).toEqual(['queued', 'sent']);
});

it('a draft whose send was lost while it was submitted is not sent again when Sent has its copy', async () => {
  const first = await recordDraftSend(await storeDrafts());
  const [draft] = await deps.db.select().from(drafts).where(eq(drafts.accountId, accountId));
  const messageId = draft?.messageId ?? '';
  await outage(first, { state: 'submitting', messageId });
  imap.add('Sent', Buffer.from(`Message-ID: ${messageId}\r\n\r\nx\r\n`));
  await deps.db
    .update(emails)
    .set({ messageId })
    .where(eq(emails.id, draft?.emailId ?? ''));
  const second = await recordOf(first.send.draftId);
  respond();
  await sendOnce(deps, second);
  expect(submitted).toEqual([]);
  expect(await states([first, second])).toEqual(['submitting', 'sent']);
  // the email of the draft is no copy
  expect((await load(second.send.id)).send.result).not.toHaveProperty('emailId');
});

it('large messages are composed in turn, and do not wait for slow SMTP servers', async () => {
  const large = { ...MAIL, plain_text: 'x'.repeat(1024 * 1024) };
  const sends = [];
  for (let n = 0; n < 4; n++) sends.push(await record({}, large));
  const outcomes = Promise.all(sends.map((loaded) => sendOnce(deps, loaded)));
  await waitFor(() => submitted.length === 4);
  respond();
  await outcomes;
  expect(await states(sends)).toEqual(['sent', 'sent', 'sent', 'sent']);
});

it('logs why a sent email appears only after the next sync', async () => {
  const warn = jest.spyOn(logger, 'warn');
  const loaded = await record({}, MAIL);
  respond();
  const { send, firstCopy } = await sendOnce(deps, loaded);
  imap.script.greeting = '* BYE not now\r\n';
  for (const session of imap.sessions) session.socket.destroy();
  expect(
    await finishSend(deps, { ...loaded, send }, { firstCopy, begunAt: performance.now(), workflowId: 'send' }),
  ).toBe(false);
  expect(warn).toHaveBeenCalledWith(
    { accountId, sendId: send.id, err: expect.objectContaining({ message: 'no parser' }) },
    'could not store the sent copy; the email appears after the next sync',
  );
});

describe('copies of a send in Sent', () => {
  let parser: MailParser;
  let work: SubmitDeps;
  let loaded: LoadedSend;
  let firstCopy: Buffer;
  const uids = () => imap.folder('Sent').messages.map((message) => message.uid);
  const uidOf = async (id: string) =>
    (await deps.db.select({ uid: locations.uid }).from(locations).where(eq(locations.emailId, id))).map(
      ({ uid }) => uid,
    );

  beforeEach(async () => {
    parser = createMailParser({ threads: 1, tempDir: dir });
    work = { ...deps, parser };
    const recorded = await record({}, MAIL);
    respond();
    const sent = await sendOnce(deps, recorded);
    loaded = { ...recorded, send: sent.send };
    firstCopy = sent.firstCopy as Buffer;
  });
  afterEach(() => parser.close());

  it('an attempt that took long, and was replaced by another, keeps the copy of the other', async () => {
    expect(await fileSentCopy(work, loaded, { appendAnyway: true, search: true })).toBe('done');
    const before = uids();
    expect(before).toHaveLength(1);
    await finishSend(work, loaded, { firstCopy, begunAt: performance.now() - 60_000, workflowId: 'send' });
    expect(uids()).toEqual(before);
  });

  it('the first of two copies is the sent email, also when one of them is removed', async () => {
    const [first, second] = [imap.add('Sent', firstCopy), imap.add('Sent', firstCopy)];
    expect(await fileSentCopy(work, loaded, { appendAnyway: true, search: true })).toBe('done');
    expect(uids()).toEqual([first, second]);
    expect(await uidOf(loaded.send.id)).toEqual([first]);
  });

  it('the copy of another send of the same draft is not its own', async () => {
    expect(await fileSentCopy(work, loaded, { appendAnyway: true, search: true })).toBe('done');
    const { messageId } = loaded.send;
    const again = await record({}, MAIL);
    const key = `${accountId}/again.eml`;
    await deps.storage.put(key, firstCopy);
    await deps.db.update(sends).set({ messageId, storageKey: key, state: 'sent' }).where(eq(sends.id, again.send.id));
    const { send } = await load(again.send.id);
    const late = { appendAnyway: true, search: false, source: firstCopy, begunAt: performance.now() - 60_000 };
    expect(await fileSentCopy(work, { ...loaded, send }, late)).toBe('done');
    expect(uids()).toHaveLength(2);
    expect(await uidOf(send.id)).toEqual([uids()[1]]);
  });
});

it('the Message-ID that the SMTP server gave the message is stored', async () => {
  const loaded = await record({}, MAIL);
  const submit = async (...[, , { beforeData }]: Parameters<Submitter['submit']>) => {
    await beforeData();
    return { rejected: [], messageId: '<theirs@b2.prod.outlook.com>' };
  };
  await sendOnce({ ...deps, submitter: { ...deps.submitter, submit } }, loaded);
  expect((await load(loaded.send.id)).send).toMatchObject({ serverMessageId: '<theirs@b2.prod.outlook.com>' });
});

it('two attempts at one send give it one Message-ID, whichever of them is accepted', async () => {
  const loaded = await record({}, MAIL);
  const attempts = [sendOnce(deps, loaded), sendOnce(deps, loaded)];
  await waitFor(() => submitted.length === 2, { what: 'both attempts' });
  const ids = submitted.map(({ source }) => /^Message-ID: (.*)$/im.exec(source.toString())?.[1]);
  expect(ids[0]).toBe(ids[1]);
  respond();
  await Promise.allSettled(attempts);
  const stored = await loadSend(deps.db, accountId, loaded.send.id);
  expect([stored?.state, stored?.messageId]).toEqual(['sent', ids[0]]);
});

describe('a second attempt, while the SMTP server has not yet answered the first one', () => {
  let answer: { accept(): void; refuse(): void };
  let loaded: LoadedSend;
  let first: ReturnType<typeof sendOnce>;
  let quick: SubmitDeps;

  beforeEach(async () => {
    const answered = new Promise<void>((accept, reject) => {
      answer = { accept, refuse: () => reject(new SubmitError('not_sent', 'provider_rejected', 'no')) };
    });
    const submitter = {
      ...deps.submitter,
      submit: async (...[, , { beforeData }]: Parameters<Submitter['submit']>) => {
        await beforeData();
        await answered;
        return { rejected: [] };
      },
    };
    quick = { ...deps, submitter, outcomeWaitMs: 50 };
    loaded = await record({}, MAIL);
    first = sendOnce(quick, loaded);
    first.catch(() => {});
    await waitFor(async () => (await states([loaded]))[0] === 'submitting');
  });

  it('waits for that answer', async () => {
    const second = sendOnce(quick, await load(loaded.send.id)).catch((error: unknown) => error);
    expect(await Promise.race([second, sleep(1_500, 'it waits')])).toBe('it waits');
    answer.accept();
    expect((await first).firstCopy).not.toBeNull();
    expect(await second).toMatchObject({ send: { state: 'sent' }, firstCopy: null });
  });

  it('does not wait for an attempt that is dead, however long the caller waits', async () => {
    await outage(loaded);
    await renewQueuedSend(deps.db, loaded.send.id);
    await expect(sendOnce(quick, await load(loaded.send.id))).rejects.toMatchObject({ code: 'provider_error' });
    expect(await states([loaded])).toEqual(['unknown']);
    answer.refuse();
    await expect(first).rejects.toMatchObject({ code: 'provider_rejected' });
    // that attempt was alive: nothing was accepted
    expect(await states([loaded])).toEqual(['queued']);
  });
});

it.each([
  ['fails', () => Promise.reject(new Error('away'))],
  ['does not end', () => new Promise<void>(() => {})],
])('a send that was refused ends although the deletion of its files %s', async (_how, remove) => {
  const { send } = await record({}, MAIL);
  const { giveUpSend } = createSendActivities({ ...deps, storage: { ...deps.storage, delete: remove } });
  const ended = new MockActivityEnvironment().run(giveUpSend, { accountId, sendId: send.id });
  expect(await ended).toBe('failed');
});
