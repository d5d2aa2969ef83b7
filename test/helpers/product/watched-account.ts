import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { asc, eq } from 'drizzle-orm';
import type { Email } from '../../../src/contract/email.ts';
import type { Folder } from '../../../src/contract/folder.ts';
import { type Lease, takeLease } from '../../../src/db/coordination/lease.ts';
import { accounts, events } from '../../../src/db/schema/index.ts';
import { listFoldersWithStatus } from '../../../src/imap/list.ts';
import { type ImapSession, openSession } from '../../../src/imap/session.ts';
import { createLogger } from '../../../src/runtime/logger.ts';
import { isScanned, scanBaseline } from '../../../src/mailbox/baseline.ts';
import type { SyncContext } from '../../../src/mailbox/context.ts';
import { insertBaselineFolders, loadFolders } from '../../../src/mailbox/store/folders.ts';
import { createUndelivered } from '../../../src/mailbox/ingest/undelivered.ts';
import { createFolderRefusals } from '../../../src/mailbox/refusals.ts';
import { watch } from '../../../src/mailbox/watch.ts';
import { createMailParser } from '../../../src/mime/parser.ts';
import { newId } from '../../../src/new-id.ts';
import { createOutbound } from '../../../src/security/outbound.ts';
import { openStorage, type Storage } from '../../../src/storage/storage.ts';
import type { Mailbox } from './mailbox.ts';
import { newMessageId } from './mail-text.ts';
import { type TestDatabase, testDatabase } from '../servers/postgres.ts';
import { waitFor } from '../assert/wait.ts';

/** Shared by the watches of one test file. */
export interface SyncGround {
  database: TestDatabase;
  storage: Storage;
  parser: ReturnType<typeof createMailParser>;
  tempDir: string;
  close(): Promise<void>;
}

/** A database, a storage and a parser for engine tests. */
export async function openSyncGround(): Promise<SyncGround> {
  const database = await testDatabase();
  const dir = await mkdtemp(join(tmpdir(), 'sync-test-'));
  const parser = createMailParser({ threads: 1, tempDir: dir });
  return {
    database,
    parser,
    tempDir: dir,
    storage: openStorage(`file://${dir}`),
    close: async () => {
      await parser.close();
      await database.drop();
      await rm(dir, { recursive: true, force: true });
    },
  };
}

export interface WatchSettings {
  pollMs?: number;
  /** milliseconds without a byte after which a missing response counts as lost */
  silenceMs?: number;
  /** no step may take longer, in milliseconds */
  maxStepMs?: number;
  /** how many responses a step may get */
  maxResponses?: number;
  /** for a server that checks logins; the fake ones accept any */
  login?: { user: string; password: string };
}

/** An event with the email or the folder that it is about. */
export interface WatchedEvent {
  type: string;
  email: Email;
  folder: Folder;
}

/** One account on a server on loopback, watched by the engine itself. */
export class WatchedAccount {
  readonly id = newId('account');
  /** the error of the watch, if it failed */
  failure: unknown;
  ended = false;
  private stopping = new AbortController();
  private running: Promise<void> | undefined;
  private readonly undelivered = createUndelivered(createLogger('silent', 'test'));
  private readonly ground: SyncGround;
  private readonly port: number;
  private readonly settings: WatchSettings;
  /** Message-IDs of marker emails */
  private readonly markers = new Set<string>();

  constructor(ground: SyncGround, port: number, settings: WatchSettings = {}) {
    this.ground = ground;
    this.port = port;
    this.settings = settings;
  }

  session(): Promise<ImapSession> {
    const { silenceMs = 15_000, maxStepMs = 30_000, maxResponses = 300_000 } = this.settings;
    const login = this.settings.login ?? { user: `${this.id}@example.test`, password: 'secret' };
    return openSession(
      { host: '127.0.0.1', port: this.port, user: login.user, password: login.password, encryption: 'NONE' },
      {
        outbound: createOutbound({ allow: ['127.0.0.0/8'] }),
        connectTimeoutMs: 10_000,
        silenceMs,
        maxCommandMs: maxStepMs,
        maxResponses,
      },
    );
  }

  /** Saves the account with the current mailbox as its baseline, and watches it. */
  async connect(): Promise<void> {
    const session = await this.session();
    const folders = await listFoldersWithStatus(session);
    await session.end();
    const imap = { imapHost: '127.0.0.1', imapPort: 1, imapUser: 'u', imapEncryption: 'NONE' };
    const smtp = { smtpHost: '127.0.0.1', smtpPort: 1, smtpUser: 'u', smtpEncryption: 'NONE' };
    const now = new Date();
    const names = { id: this.id, userId: this.id, name: this.id, mailboxKey: this.id };
    const rest = { credentials: Buffer.alloc(0), createdAt: now, connectedAt: now };
    await this.ground.database.database.db.transaction(async (tx) => {
      await tx.insert(accounts).values({ ...names, ...imap, ...smtp, ...rest });
      await insertBaselineFolders(tx, this.id, { folders }, now);
    });
    const scan = await this.context();
    await scanBaseline(scan, this.stopping.signal);
    await scan.session.end();
    if (!isScanned(await this.folders())) throw new Error('the baseline was not scanned');
    await this.start();
  }

  private async context(): Promise<SyncContext> {
    const { database, storage, parser, tempDir } = this.ground;
    const { db } = database.database;
    const lease = (await takeLease(db, this.id)) as Lease;
    const account = { id: this.id, ownAddresses: ['reader@example.test'], connectedAt: new Date() };
    const logger = createLogger('silent', 'test');
    return {
      db,
      storage,
      parser,
      tempDir,
      logger,
      session: await this.session(),
      reopen: () => this.session(),
      lease,
      account,
      baselineKnown: () => true,
      refusals: createFolderRefusals(this.id, logger),
      undelivered: this.undelivered,
    };
  }

  /** Watches (again); resolves once the mailbox is in sync, rejects with the error of the watch. */
  async start(): Promise<void> {
    const ctx = await this.context();
    this.stopping = new AbortController();
    this.failure = undefined;
    this.ended = false;
    await new Promise<void>((resolve, reject) => {
      const { pollMs = 1_000 } = this.settings;
      this.running = watch(ctx, { pollMs, signal: this.stopping.signal, onInSync: async () => resolve() })
        .catch((error: Error) => {
          this.failure = error;
          reject(error);
        })
        .finally(async () => {
          await ctx.session.end();
          this.ended = true;
        });
    });
  }

  /** Waits for the error that ended the watch. */
  async failed(timeoutMs = 20_000): Promise<unknown> {
    await waitFor(() => this.ended, { timeoutMs, what: 'the watch to fail' });
    return this.failure;
  }

  async stop(): Promise<void> {
    this.stopping.abort();
    await this.running;
  }

  /** The events so far, without those of markers. */
  async events(): Promise<WatchedEvent[]> {
    return (await this.allEvents()).filter(({ email }) => !this.markers.has(email?.message_id ?? ''));
  }

  private async allEvents(): Promise<WatchedEvent[]> {
    const { db } = this.ground.database.database;
    const rows = await db.select().from(events).where(eq(events.accountId, this.id)).orderBy(asc(events.sequence));
    return rows.map((row) => ({ type: row.type, ...(JSON.parse(row.data) as Omit<WatchedEvent, 'type'>) }));
  }

  /** The events so far as `type: folder, folder`, with the folders' paths. */
  async summary(): Promise<string[]> {
    const paths = new Map((await this.folders()).map(({ id, path }) => [id, path]));
    return (await this.events()).map(
      ({ type, email }) =>
        `${type}: ${(email?.folders ?? [])
          .map((id) => paths.get(id))
          .sort()
          .join(', ')}`,
    );
  }

  /**
   * Waits for `count` events, then for the event of a marker email in each of the folders: an extra event would come
   * before it. Returns the types of all events so far, without markers.
   */
  async settle(box: Mailbox, count: number, folders: readonly string[] = ['INBOX']): Promise<string[]> {
    await waitFor(async () => (await this.events()).length >= count, {
      timeoutMs: 25_000,
      what: `${count} events`,
    }).catch(async (error: unknown) => {
      const ended = this.ended ? `; the watch ended: ${String(this.failure)}` : '';
      throw new Error(`${String(error)}; came: ${(await this.summary()).join('; ')}${ended}`);
    });
    for (const folder of folders) {
      const messageId = newMessageId();
      this.markers.add(messageId);
      await box.append(folder, { subject: 'marker', messageId });
      await waitFor(async () => (await this.allEvents()).some(({ email }) => email?.message_id === messageId), {
        timeoutMs: 15_000,
        what: `the marker in ${folder}`,
      });
    }
    return (await this.events()).map(({ type }) => type);
  }

  async folderId(path: string): Promise<string | undefined> {
    return (await this.folders()).find((folder) => folder.path === path)?.id;
  }

  private folders() {
    return loadFolders(this.ground.database.database.db, this.id);
  }
}
