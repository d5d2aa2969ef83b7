import { afterAll, afterEach, beforeAll } from '@jest/globals';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { FolderChoice } from '../../../src/contract/mailbox-config.ts';
import { changeAccount } from '../../../src/db/queries/accounts.ts';
import { type Lease, takeLease } from '../../../src/db/coordination/lease.ts';
import { listFoldersWithStatus } from '../../../src/imap/list.ts';
import type { ImapSession } from '../../../src/imap/session.ts';
import { createLogger } from '../../../src/runtime/logger.ts';
import type { SyncContext } from '../../../src/mailbox/context.ts';
import { createUndelivered } from '../../../src/mailbox/ingest/undelivered.ts';
import { createFolderRefusals } from '../../../src/mailbox/refusals.ts';
import { type FolderState, insertBaselineFolders, loadFolders } from '../../../src/mailbox/store/folders.ts';
import { FakeImap, type FakeImapOptions } from '../fakes/fake-imap.ts';
import { openTestSession } from './mail-session.ts';
import { storeAccount } from './stored-account.ts';
import { storedEvents } from './stored-events.ts';
import { openSyncGround, type SyncGround } from './watched-account.ts';

/** One account on a scripted IMAP server, for tests that call a single stage of the engine. */
export interface Engine {
  server: FakeImap;
  ctx: SyncContext;
  folder(path: string): Promise<FolderState>;
  /** types of the events so far */
  events(): Promise<string[]>;
  /** the storage keys of the account */
  files(): Promise<string[]>;
  close(): Promise<void>;
}

/** Saves an account with the current mailbox as its baseline; `prepare` fills the mailbox before. */
async function startEngine(
  ground: SyncGround,
  options: FakeImapOptions = {},
  prepare: (server: FakeImap) => void = () => {},
): Promise<Engine> {
  const server = new FakeImap(options);
  prepare(server);
  await server.listen();
  const { db } = ground.database.database;
  const id = await storeAccount(ground.database.database);
  const login = { user: 'reader@example.test', password: 'secret', imapPort: server.port };
  const sessions: ImapSession[] = [];
  const reopen = async () => {
    const session = await openTestSession(login, { connectTimeoutMs: 3_000, silenceMs: 5_000, idleMs: 60_000 });
    sessions.push(session);
    return session;
  };
  const session = await reopen();
  const folders = await listFoldersWithStatus(session);
  await db.transaction((tx) => insertBaselineFolders(tx, id, { folders }, new Date()));
  const logger = createLogger('silent', 'test');
  const ctx: SyncContext = {
    db,
    storage: ground.storage,
    parser: ground.parser,
    logger,
    tempDir: ground.tempDir,
    session,
    reopen,
    lease: (await takeLease(db, id)) as Lease,
    account: { id, ownAddresses: ['reader@example.test'], connectedAt: new Date() },
    baselineKnown: () => true,
    refusals: createFolderRefusals(id, logger),
    undelivered: createUndelivered(logger),
  };
  return {
    server,
    ctx,
    async folder(path) {
      const found = (await loadFolders(db, id)).find((folder) => folder.path === path);
      if (!found) throw new Error(`no folder ${path} is stored`);
      return found;
    },
    events: async () => (await storedEvents(ground.database.database, id)).map(({ type }) => type),
    files: () => filesBelow(join(ground.tempDir, id)),
    close: async () => {
      await Promise.all(sessions.map((each) => each.end()));
      await server.close();
    },
  };
}

/** Gives the account another choice of folders, as a call does: the watch with the earlier choice has ended. */
export async function choose({ ctx }: Engine, folderChoice: FolderChoice | null): Promise<void> {
  await changeAccount(ctx.db, ctx.account.id, { folderChoice });
  Object.assign(ctx, { lease: { accountId: ctx.account.id, watchEpoch: null } });
  ctx.account.choice = { folders: folderChoice, isApplied: false };
}

/** Hooks of a test file that starts engines; each stops with its test. `ground` is available from the first test on. */
export function engineTests(): {
  ground(): SyncGround;
  start(options?: FakeImapOptions, prepare?: (server: FakeImap) => void): Promise<Engine>;
} {
  let ground: SyncGround;
  const open: Engine[] = [];
  beforeAll(async () => {
    ground = await openSyncGround();
  });
  afterAll(() => ground.close());
  afterEach(async () => {
    for (const engine of open.splice(0)) await engine.close();
  });
  return {
    ground: () => ground,
    async start(options, prepare) {
      const engine = await startEngine(ground, options, prepare);
      open.push(engine);
      return engine;
    },
  };
}

async function filesBelow(dir: string): Promise<string[]> {
  const entries = await readdir(dir, { recursive: true, withFileTypes: true }).catch(() => []);
  return entries.filter((entry) => entry.isFile()).map(({ name }) => name);
}
