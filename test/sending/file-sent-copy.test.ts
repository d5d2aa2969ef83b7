import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { MockActivityEnvironment } from '@temporalio/testing';
import { and, eq } from 'drizzle-orm';
import { createSendActivities } from '../../src/activities/send-email.ts';
import { accounts, attachments, emails, events, sends, threadKeys } from '../../src/db/schema/index.ts';
import { createSessionPool, type SessionPool } from '../../src/imap/pool.ts';
import { createUndelivered } from '../../src/mailbox/ingest/undelivered.ts';
import { saveProvisionalEmail } from '../../src/mailbox/provisional-email.ts';
import { loadSyncSettings, sealCredentials } from '../../src/mailbox/settings.ts';
import { createMailParser, type MailParser } from '../../src/mime/parser.ts';
import { newId } from '../../src/new-id.ts';
import { presetOf } from '../../src/oauth/presets.ts';
import { loadSend, recordSend } from '../../src/outgoing/send-state.ts';
import { createLogger } from '../../src/runtime/logger.ts';
import { createSecrets } from '../../src/security/secrets.ts';
import type { LoadedSend } from '../../src/sending/compose.ts';
import { fileSentCopy, filesItself, type Filing } from '../../src/sending/file-sent-copy.ts';
import type { SubmitDeps } from '../../src/sending/submit.ts';
import { openStorage } from '../../src/storage/storage.ts';
import { FakeImap } from '../helpers/fakes/fake-imap.ts';
import { LOOPBACK, testTokens } from '../helpers/product/mail-session.ts';
import { storeAccount } from '../helpers/product/stored-account.ts';
import { testDatabase, type TestDatabase } from '../helpers/servers/postgres.ts';

/** The copies of sent messages in Sent, where the mailbox does not take one at once. */

let test: TestDatabase;
let dir: string;
let parser: MailParser;
let imap: FakeImap;
let sessions: SessionPool;
let deps: SubmitDeps;
let accountId: string;

const secrets = createSecrets({ current: randomBytes(32) });
const logger = createLogger('silent', 'test');
const MESSAGE_ID = '<one@example.test>';
const SOURCE = Buffer.from(`Message-ID: ${MESSAGE_ID}\r\nFrom: me@example.test\r\nSubject: x\r\n\r\nx\r\n`);

beforeAll(async () => {
  test = await testDatabase();
  dir = await mkdtemp(join(tmpdir(), 'file-sent-copy-test-'));
  parser = createMailParser({ threads: 1, tempDir: dir });
});
afterAll(async () => {
  await parser.close();
  await test.drop();
  await rm(dir, { recursive: true, force: true });
});

beforeEach(async () => {
  imap = await new FakeImap({ folders: { Drafts: ['\\Drafts'], Sent: ['\\Sent'] } }).listen();
  sessions = createSessionPool({ outbound: LOOPBACK });
  accountId = await storeAccount(test.database);
  const credentials = sealCredentials(secrets, accountId, { imapPassword: 'secret', smtpPassword: 'secret' });
  await setAccount({ imapHost: '127.0.0.1', imapPort: imap.port, imapEncryption: 'NONE', credentials });
  deps = {
    db: test.database.db,
    storage: openStorage(pathToFileURL(dir).href),
    ...{ parser, logger, secrets, sessions },
    tokens: testTokens({ db: test.database.db, secrets }),
    outbound: LOOPBACK,
    undelivered: createUndelivered(logger),
    tempDir: dir,
    publicUrl: 'http://127.0.0.1:3000',
    markDisconnected: async () => {},
    submitter: { submit: async () => ({ rejected: [] }), drop: async () => {}, close: async () => {} },
  };
});
afterEach(async () => {
  await sessions.close();
  await imap.close();
});

const setAccount = (values: Partial<typeof accounts.$inferInsert>) =>
  test.database.db.update(accounts).set(values).where(eq(accounts.id, accountId));

async function load(sendId: string): Promise<LoadedSend> {
  const [send, settings] = [await loadSend(deps.db, accountId, sendId), await loadSyncSettings(deps.db, accountId)];
  if (!send || !settings) throw new Error('no such send');
  return { send, settings };
}

/** A send that the SMTP server has accepted, whose copy is not filed. @returns its id */
async function accepted(values: Partial<typeof sends.$inferInsert> = {}, source = SOURCE): Promise<string> {
  const id = newId('email');
  const own = { apiKeyId: 'pk_1', apiKeyName: 'key', metadata: null, trackingId: null, tracking: null };
  await recordSend(deps.db, { ...own, id, accountId, draftId: null, inputKey: null });
  const storageKey = `${accountId}/sent/${id}.eml`;
  await deps.storage.put(storageKey, source);
  const composed = { messageId: MESSAGE_ID, storageKey, result: { rejected: [] } };
  await deps.db
    .update(sends)
    .set({ state: 'sent', ...composed, ...values })
    .where(eq(sends.id, id));
  return id;
}

const file = async (id: string, filing: Partial<Filing> = {}) =>
  fileSentCopy(deps, await load(id), { appendAnyway: false, search: true, ...filing });
const arrived = () =>
  deps.db
    .select()
    .from(events)
    .where(and(eq(events.accountId, accountId), eq(events.type, 'email.new')));
const copies = () => imap.folder('Sent').messages.length;
const appends = () => imap.count('APPEND');

it.each(['global', 'us_government', 'china'] as const)('Microsoft (%s) files copies itself', (cloud) => {
  const hosts = presetOf('microsoft', { tenant: 'common', cloud })?.hosts ?? [];
  const smtp = hosts.filter((host) => host.startsWith('smtp'));
  expect(smtp).not.toEqual([]);
  expect(smtp.filter((host) => !filesItself(host))).toEqual([]);
});

it.each([
  ...['smtp.zoho.com', 'smtppro.zoho.eu', 'smtp.zoho.in', 'smtp.zoho.jp', 'smtp.zoho.com.au'],
  ...['smtp.zoho.com.cn', 'smtp.zoho.sa', 'smtp.zohocloud.ca'],
])('Zoho (%s) files copies itself', (host) => expect(filesItself(host)).toBe(true));

describe('a copy that the server has confirmed and does not show', () => {
  /** hides what Sent holds from then on */
  const hide = () => {
    imap.script.command = (command, session) => {
      if (command.name === 'UID SEARCH') session.send(command, '* SEARCH\r\n');
      const isHidden = command.name === 'UID SEARCH' || command.name === 'UID FETCH';
      if (isHidden) session.done(command);
      return isHidden;
    };
  };

  it.each([
    ['with UIDPLUS', true],
    ['without', false],
  ])('is appended once, and found when it is shown (%s)', async (_what, hasUidplus) => {
    if (!hasUidplus) imap.capabilities = imap.capabilities.replace(' UIDPLUS', '');
    hide();
    const id = await accepted();
    for (let check = 0; check < 4; check++) expect(await file(id, { appendAnyway: check > 1 })).toBe('waiting');
    expect(appends()).toBe(1);
    imap.script = {};
    expect(await file(id)).toBe('done');
    expect([appends(), copies()]).toEqual([1, 1]);
    expect((await arrived()).map(({ objectId }) => objectId)).toEqual([id]);
  });

  it('is searched for a quarter of an hour: a rule has moved it to a folder that is not stored', async () => {
    const id = await accepted({
      result: { rejected: [], appendedAt: new Date(Date.now() - 14 * 60_000).toISOString() },
    });
    expect(await file(id)).toBe('waiting');
    const appendedAt = new Date(Date.now() - 16 * 60_000).toISOString();
    await deps.db
      .update(sends)
      .set({ result: { rejected: [], appendedAt } })
      .where(eq(sends.id, id));
    expect(await file(id)).toBe('done');
    expect(appends()).toBe(0);
    expect(await load(id)).toMatchObject({ send: { storageKey: null, hasProvisional: false } });
  });

  it('is not appended again after a failure', async () => {
    const id = await accepted();
    imap.script.command = ({ name }, session) => (name === 'UID FETCH' ? (session.socket.destroy(), true) : false);
    await expect(file(id)).rejects.toMatchObject({ code: 'provider_error' });
    imap.script = {};
    hide();
    expect(await file(id)).toBe('waiting');
    expect(appends()).toBe(1);
  });
});

describe('an account that is disconnected', () => {
  it('is not logged in to for a copy or a draft', async () => {
    const id = await accepted({ draftId: newId('draft') });
    await setAccount({ status: 'disconnected' });
    expect(await file(id)).toBe('disconnected');
    const { removeSentDraft } = createSendActivities(deps);
    const remove = (given: { waits?: boolean }) =>
      new MockActivityEnvironment().run(removeSentDraft, { accountId, sendId: id, ...given });
    expect(await remove({ waits: true })).toBe('disconnected');
    // a run that began under an earlier version tries again later
    await expect(remove({})).rejects.toMatchObject({ code: 'invalid_credentials' });
    expect(imap.log).toEqual([]);
    await setAccount({ status: 'running' });
    expect(await file(id)).toBe('done');
  });
});

describe('a message to which the SMTP server gave another Message-ID', () => {
  const serverMessageId = '<a1@b2.eurprd01.prod.outlook.com>';
  const rewritten = Buffer.from(SOURCE.toString().replace(MESSAGE_ID, serverMessageId));

  it('has that id in the copy that the provider files: it is the only one, in the thread of the sent email', async () => {
    const id = await accepted({ serverMessageId });
    const { send, settings } = await load(id);
    await saveProvisionalEmail(deps, { id: accountId, ...settings }, { ...send, messageId: MESSAGE_ID }, SOURCE);
    const [shown] = await deps.db.select().from(sends).where(eq(sends.id, id));
    imap.add('Sent', rewritten);
    expect(await file(id, { appendAnyway: true })).toBe('done');
    expect([appends(), copies()]).toEqual([0, 1]);
    expect((await arrived()).map(({ objectId }) => objectId)).toEqual([id]);
    const [email] = await deps.db.select().from(emails).where(eq(emails.accountId, accountId));
    expect(email).toMatchObject({ id, messageId: serverMessageId, threadId: shown?.email?.thread_id });
  });

  it('is in one thread with replies to that id, where its copy has ours', async () => {
    const id = await accepted({ serverMessageId });
    expect(await file(id)).toBe('done');
    const [key] = await deps.db
      .select()
      .from(threadKeys)
      .where(and(eq(threadKeys.accountId, accountId), eq(threadKeys.key, `mid:${serverMessageId.slice(1, -1)}`)));
    const [email] = await deps.db.select().from(emails).where(eq(emails.accountId, accountId));
    expect(key).toMatchObject({ threadId: email?.threadId });
  });
});

it('a copy that is given up leaves no attachments', async () => {
  const source = Buffer.from(
    [
      ...[`Message-ID: ${MESSAGE_ID}`, 'From: me@example.test', 'MIME-Version: 1.0'],
      ...['Content-Type: multipart/mixed; boundary=b', '', '--b', 'Content-Type: text/plain', '', 'x'],
      ...['--b', 'Content-Type: text/csv', 'Content-Disposition: attachment; filename=a.csv', '', '1,2', '--b--', ''],
    ].join('\r\n'),
  );
  const id = await accepted({}, source);
  const { send, settings } = await load(id);
  await saveProvisionalEmail(deps, { id: accountId, ...settings }, { ...send, messageId: MESSAGE_ID }, source);
  const shown = await deps.db.select().from(attachments).where(eq(attachments.emailId, id));
  expect(shown).toHaveLength(1);
  const { giveUpFiling } = createSendActivities(deps);
  await new MockActivityEnvironment().run(giveUpFiling, { accountId, sendId: id });
  expect(await deps.db.select().from(attachments).where(eq(attachments.emailId, id))).toEqual([]);
  expect(await deps.storage.size(shown[0]?.storageKey ?? '')).toBeUndefined();
  expect((await load(id)).send).toMatchObject({ hasProvisional: false, storageKey: null });
});
