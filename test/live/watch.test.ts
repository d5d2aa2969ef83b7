import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { asc, eq } from 'drizzle-orm';
import type { Email } from '../../src/contract/email.ts';
import type { Folder } from '../../src/contract/folder.ts';
import { type Lease, takeLease } from '../../src/db/lease.ts';
import { accounts, events } from '../../src/db/schema.ts';
import { listFoldersWithStatus } from '../../src/imap/list.ts';
import { type ImapSession, openSession } from '../../src/imap/session.ts';
import { createLogger } from '../../src/logger.ts';
import { isScanned, scanBaseline } from '../../src/mailbox/baseline.ts';
import type { SyncContext } from '../../src/mailbox/context.ts';
import { insertBaselineFolders, loadFolders } from '../../src/mailbox/store/folders.ts';
import { watch } from '../../src/mailbox/watch.ts';
import { createMailParser, type MailParser } from '../../src/mime/parser.ts';
import { newId } from '../../src/new-id.ts';
import { createOutbound } from '../../src/outbound.ts';
import { openStorage, type Storage } from '../../src/storage/storage.ts';
import { type DovecotInfo, startDovecot } from '../helpers/dovecot.ts';
import { mailServers } from '../helpers/mail-servers.ts';
import { mailText, newMessageId } from '../helpers/mail-text.ts';
import { addUser, type MailUser } from '../helpers/mail-user.ts';
import { type Mailbox, openMailbox } from '../helpers/mailbox.ts';
import { type TestDatabase, testDatabase } from '../helpers/postgres.ts';
import { waitFor } from '../helpers/wait.ts';

let database: TestDatabase;
let parser: MailParser;
let storage: Storage;
let dir: string;

beforeAll(async () => {
  database = await testDatabase();
  dir = await mkdtemp(join(tmpdir(), 'watch-test-'));
  // Dovecot drops to users of its own, who have to come through.
  await chmod(dir, 0o755);
  parser = createMailParser({ threads: 1, tempDir: dir });
  storage = openStorage(`file://${dir}`);
});

afterAll(async () => {
  await parser.close();
  await database.drop();
  await rm(dir, { recursive: true, force: true });
});

/** One account with a watch that can be stopped and started. */
class Watched {
  readonly user: MailUser;
  readonly id = newId('account');
  mailbox!: Mailbox;
  private stopping: AbortController | undefined;
  private running: Promise<void> | undefined;
  failure: Error | undefined;
  constructor(user: MailUser) {
    this.user = user;
  }

  private session(): Promise<ImapSession> {
    const { user, password, dovecot } = this.user;
    return openSession(
      { host: '127.0.0.1', port: dovecot.imapPort, user, password, encryption: 'NONE' },
      { outbound: createOutbound({ allow: ['127.0.0.0/8'] }) },
    );
  }

  async connect(): Promise<void> {
    this.mailbox ??= await openMailbox(this.user);
    const session = await this.session();
    const folders = await listFoldersWithStatus(session);
    await session.end();
    await database.database.db.transaction(async (tx) => {
      const now = new Date();
      await tx.insert(accounts).values({
        id: this.id,
        userId: this.user.user,
        name: this.user.user,
        mailboxKey: this.id,
        imapHost: '127.0.0.1',
        imapPort: 1,
        imapUser: this.user.user,
        imapEncryption: 'NONE',
        smtpHost: '127.0.0.1',
        smtpPort: 1,
        smtpUser: this.user.user,
        smtpEncryption: 'NONE',
        credentials: Buffer.alloc(0),
        createdAt: now,
        connectedAt: now,
      });
      await insertBaselineFolders(tx, this.id, folders, now);
    });
    await this.start();
  }

  async start(): Promise<void> {
    const { db } = database.database;
    const lease = (await takeLease(db, this.id)) as Lease;
    const session = await this.session();
    const account = { id: this.id, ownAddresses: [this.user.user], connectedAt: new Date() };
    const logger = createLogger('silent', 'test');
    const scanSession = await this.session();
    const ctx: SyncContext = {
      db,
      storage,
      parser,
      tempDir: dir,
      logger,
      session,
      freshSession: true,
      reopen: () => this.session(),
      lease,
      account,
      baselineKnown: () => true,
    };
    this.stopping = new AbortController();
    const { signal } = this.stopping;
    await scanBaseline({ ...ctx, session: scanSession }, signal);
    await scanSession.end();
    expect(isScanned(await loadFolders(db, this.id))).toBe(true);
    await new Promise<void>((resolve, reject) => {
      this.running = watch(ctx, { pollMs: 1_000, signal, onInSync: async () => resolve() }).catch((error: Error) => {
        this.failure = error;
        reject(error);
      });
    });
  }

  async stop(): Promise<void> {
    this.stopping?.abort();
    await this.running;
  }

  async close(): Promise<void> {
    await this.stop().catch(() => {});
    await this.mailbox?.close();
    if (this.failure) throw this.failure;
  }

  /** Types of the events so far, with the email or folder they are about. */
  async events(): Promise<{ type: string; email?: Email; folder?: Folder }[]> {
    const rows = await database.database.db
      .select()
      .from(events)
      .where(eq(events.accountId, this.id))
      .orderBy(asc(events.sequence));
    return rows.map((row) => ({ type: row.type, ...(JSON.parse(row.data) as { email?: Email; folder?: Folder }) }));
  }

  /** Waits until as many events as given have come, and a while longer for one too many. */
  async told(count: number): Promise<string[]> {
    await waitFor(async () => (await this.events()).length >= count, {
      timeoutMs: 15_000,
      what: () => `${count} events`,
    }).catch(async (error: unknown) => {
      throw new Error(`${String(error)}; told: ${(await this.events()).map((event) => event.type).join(', ')}`);
    });
    const settled = Date.now() + 1_500;
    await waitFor(() => Date.now() > settled, { timeoutMs: 5_000 });
    return (await this.events()).map((event) => event.type);
  }

  async folderId(path: string): Promise<string | undefined> {
    return (await loadFolders(database.database.db, this.id)).find((folder) => folder.path === path)?.id;
  }
}

const open: Watched[] = [];

async function watched(dovecot?: DovecotInfo): Promise<Watched> {
  const account = new Watched(await addUser(dovecot ? { dovecot } : {}));
  open.push(account);
  return account;
}

// What a failed test left open.
afterEach(async () => {
  for (const account of open.splice(0)) await account.close();
});

function behaviour(profile: () => DovecotInfo | undefined, path: (name: string) => string = (name) => name) {
  it('tells new mail once, with its folder', async () => {
    const account = await watched(profile());
    await account.connect();
    const started = Date.now();
    await account.mailbox.append('INBOX', { subject: 'Hello', text: 'World' });
    expect(await account.told(1)).toEqual(['email.new']);
    expect(Date.now() - started).toBeLessThan(12_000);
    const [event] = await account.events();
    expect(event?.email).toMatchObject({
      subject: 'Hello',
      folders: [await account.folderId('INBOX')],
      is_unread: true,
    });
  });

  it('tells a read mail, a move and a delete, each once, under one id', async () => {
    const account = await watched(profile());
    const mailbox = await openMailbox(account.user);
    await mailbox.createFolder(path('Filed'));
    await mailbox.close();
    await account.connect();
    const uid = await account.mailbox.append('INBOX', { subject: 'Moves' });
    const uids = uid ? [uid] : await account.mailbox.uids('INBOX');
    await account.told(1);
    await account.mailbox.addFlags('INBOX', uids, ['\\Seen']);
    await account.told(2);
    await account.mailbox.move('INBOX', uids, path('Filed'));
    expect(await account.told(3)).toEqual(['email.new', 'email.update', 'email.update']);
    await account.mailbox.expunge(path('Filed'), await account.mailbox.uids(path('Filed')));
    expect(await account.told(4)).toEqual(['email.new', 'email.update', 'email.update', 'email.delete']);
    const told = await account.events();
    expect(new Set(told.map((event) => event.email?.id)).size).toBe(1);
    expect(told[2]?.email?.folders).toEqual([await account.folderId(path('Filed'))]);
  });

  it('finds what was moved, read and deleted while it was away', async () => {
    const account = await watched(profile());
    await account.connect();
    for (const subject of ['a', 'b', 'c']) await account.mailbox.append('INBOX', { subject });
    await account.told(3);
    const uids = await account.mailbox.uids('INBOX');
    await account.stop();
    await account.mailbox.createFolder(path('Later'));
    await account.mailbox.move('INBOX', uids[0] as number, path('Later'));
    await account.mailbox.addFlags('INBOX', uids[1] as number, ['\\Seen']);
    await account.mailbox.expunge('INBOX', uids[2] as number);
    await account.mailbox.append('INBOX', { subject: 'd' });
    await account.start();
    const types = (await account.told(8)).slice(3).sort();
    expect(types).toEqual(['email.delete', 'email.folder.create', 'email.new', 'email.update', 'email.update']);
  });

  it('tells nothing of mail that lay there before, moved or read later', async () => {
    const account = await watched(profile());
    const mailbox = await openMailbox(account.user);
    await mailbox.append('INBOX', { subject: 'old' }, { date: new Date(Date.now() - 86_400_000) });
    await mailbox.append('INBOX', { subject: 'recent' });
    await mailbox.createFolder(path('Filed'));
    await mailbox.close();
    await account.connect();
    await account.mailbox.addFlags('INBOX', await account.mailbox.uids('INBOX'), ['\\Seen']);
    await account.mailbox.move('INBOX', await account.mailbox.uids('INBOX'), path('Filed'));
    await account.mailbox.append('INBOX', { subject: 'new' });
    expect(await account.told(1)).toEqual(['email.new']);
    expect((await account.events())[0]?.email?.subject).toBe('new');
  });

  it('tells a renamed folder once and nothing of its mail', async () => {
    const account = await watched(profile());
    await account.connect();
    await account.mailbox.createFolder(path('Before'));
    await account.told(1);
    for (let i = 0; i < 20; i++) await account.mailbox.append(path('Before'), { subject: `mail ${i}` });
    expect((await account.told(21)).filter((type) => type === 'email.new')).toHaveLength(20);
    const id = await account.folderId(path('Before'));
    await account.mailbox.renameFolder(path('Before'), path('After'));
    expect((await account.told(22)).slice(21)).toEqual(['email.folder.update']);
    expect(await account.folderId(path('After'))).toBe(id);
    await account.mailbox.deleteFolder(path('After'));
    const rest = (await account.told(43)).slice(22);
    expect(rest.filter((type) => type === 'email.folder.delete')).toHaveLength(1);
    expect(rest.filter((type) => type === 'email.delete')).toHaveLength(20);
  });

  it('tells drafts by their own events', async () => {
    const account = await watched(profile());
    await account.connect();
    const drafts = path('Drafts');
    if (!(await account.folderId(drafts))) {
      await account.mailbox.createFolder(drafts);
      await account.told(1);
    }
    const before = (await account.events()).length;
    await account.mailbox.append(drafts, { subject: 'a draft' }, { flags: ['\\Draft', '\\Seen'] });
    const types = (await account.told(before + 1)).slice(before);
    expect(types).toEqual(['email.draft.new']);
    const draft = (await account.events()).at(-1)?.email;
    expect(draft).toMatchObject({ object: 'Draft', draft_id: expect.stringMatching(/^drf_/) });
    await account.mailbox.expunge(drafts, await account.mailbox.uids(drafts));
    expect((await account.told(before + 2)).slice(before)).toEqual(['email.draft.new', 'email.draft.delete']);
    expect((await account.events()).at(-1)?.email?.draft_id).toBe(draft?.draft_id);
  });

  it('two equal mails in one folder are two', async () => {
    const account = await watched(profile());
    await account.connect();
    const raw = mailText({ subject: 'twin', messageId: newMessageId() });
    const date = new Date();
    await account.mailbox.append('INBOX', raw, { date });
    await account.mailbox.append('INBOX', raw, { date });
    expect(await account.told(2)).toEqual(['email.new', 'email.new']);
    expect(new Set((await account.events()).map((event) => event.email?.id)).size).toBe(2);
  });
}

describe('a watched mailbox', () => behaviour(() => undefined));

describe('a watched mailbox on a server of the year 2000', () => {
  let info: DovecotInfo & { stop(): Promise<void> };
  beforeAll(async () => {
    const { certificate } = mailServers();
    info = await startDovecot(join(dir, 'old'), {
      certificate,
      capabilities: 'IMAP4rev1',
      prefix: 'INBOX.',
      separator: '.',
      bareFolders: true,
    });
  });
  afterAll(() => info.stop());
  behaviour(
    () => info,
    (name) => `INBOX.${name}`,
  );
});
