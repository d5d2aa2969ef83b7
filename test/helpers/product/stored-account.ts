import { insertAccount } from '../../../src/db/queries/accounts.ts';
import type { Database } from '../../../src/db/driver/client.ts';
import { newId } from '../../../src/new-id.ts';

/** Saves an account as a connect would, without folders and without an event; returns its id. */
export async function storeAccount(
  { db }: Pick<Database, 'db'>,
  options: { initialSyncDays?: number; name?: string; userId?: string } = {},
): Promise<string> {
  const id = newId('account');
  const side = { host: 'mail.example.test', port: 993, user: id, encryption: 'SSL' } as const;
  await db.transaction((tx) =>
    insertAccount(tx, {
      id,
      mailboxKey: `mail.example.test|${id}`,
      imap: side,
      smtp: { ...side, port: 465 },
      credentials: Buffer.from('sealed'),
      userId: options.userId ?? `${id}@example.test`,
      name: options.name ?? 'A name',
      initialSyncDays: options.initialSyncDays ?? null,
      at: new Date(),
    }),
  );
  return id;
}
