import { accounts } from '../../../src/db/schema/index.ts';
import type { FolderSnapshot } from '../../../src/imap/list.ts';
import { createSessionPool } from '../../../src/imap/pool.ts';
import { createLogger } from '../../../src/runtime/logger.ts';
import { createUndelivered } from '../../../src/mailbox/ingest/undelivered.ts';
import { sealCredentials } from '../../../src/mailbox/settings.ts';
import { insertBaselineFolders } from '../../../src/mailbox/store/folders.ts';
import type { MailboxDeps } from '../../../src/mailbox/with-mailbox.ts';
import { createSecrets } from '../../../src/security/secrets.ts';
import { LOOPBACK, testTokens } from './mail-session.ts';
import type { SyncGround } from './watched-account.ts';

/** Dependencies of the activities of one account, with a pool of `connections`; the caller closes `sessions`. */
export function mailboxDeps(ground: SyncGround, connections = 3): MailboxDeps {
  const { db } = ground.database.database;
  const secrets = createSecrets({ current: Buffer.alloc(32, 7) });
  return {
    db,
    storage: ground.storage,
    parser: ground.parser,
    logger: createLogger('silent', 'test'),
    secrets,
    tokens: testTokens({ db, secrets }),
    outbound: LOOPBACK,
    sessions: createSessionPool({ outbound: LOOPBACK, maxPerAccount: connections, waitMs: 60_000 }),
    undelivered: createUndelivered(createLogger('silent', 'test')),
    tempDir: ground.tempDir,
    markDisconnected: async () => {},
  };
}

/** Saves an account whose mailbox is on this port of loopback, with these folders as its baseline. */
export async function storeServedAccount(
  { db, secrets }: MailboxDeps,
  id: string,
  { port, folders }: { port: number; folders: FolderSnapshot[] },
): Promise<void> {
  const user = 'reader@example.test';
  const imap = { imapHost: '127.0.0.1', imapPort: port, imapUser: user, imapEncryption: 'NONE' };
  const smtp = { smtpHost: '127.0.0.1', smtpPort: 1, smtpUser: user, smtpEncryption: 'NONE' };
  const credentials = sealCredentials(secrets, id, { imapPassword: 'p', smtpPassword: 'p' });
  const now = new Date();
  await db.transaction(async (tx) => {
    const names = { id, userId: user, name: user, mailboxKey: id };
    await tx.insert(accounts).values({ ...names, ...imap, ...smtp, credentials, createdAt: now, connectedAt: now });
    await insertBaselineFolders(tx, id, { folders }, now);
  });
}
