import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { eq, sql } from 'drizzle-orm';
import { changeEncryptionKey } from '../../src/maintenance/encryption-key.ts';
import { accounts } from '../../src/db/schema/index.ts';
import { createLogger } from '../../src/runtime/logger.ts';
import { openCredentials, sealCredentials } from '../../src/mailbox/settings.ts';
import { createSecrets } from '../../src/security/secrets.ts';
import { type Deliveries, deliveryTests } from '../helpers/product/deliveries.ts';
import { storeAccount } from '../helpers/product/stored-account.ts';

const startDeliveries = deliveryTests();
let the: Deliveries;
beforeAll(async () => {
  the = await startDeliveries();
});
afterAll(() => the.stop());

it('is tracked until the old key is no longer needed', async () => {
  const { db, client } = the;
  const logger = createLogger('silent', 'test');
  const [oldKey, newKey] = [randomBytes(32), randomBytes(32)];
  const before = createSecrets({ current: oldKey });
  const both = createSecrets({ current: newKey, previous: oldKey });
  const after = createSecrets({ current: newKey });
  const check = (secrets: typeof before) =>
    changeEncryptionKey({ db, client, secrets, logger, hasPrevious: secrets === both });
  await db.update(accounts).set({ credentials: Buffer.alloc(0) });
  const id = await storeAccount(the);
  const passwords = { imapPassword: 'a', smtpPassword: 'b' };
  await db
    .update(accounts)
    .set({ credentials: sealCredentials(before, id, passwords) })
    .where(eq(accounts.id, id));

  expect(await check(before)).toMatchObject({ unreadable: 0, olderExecutions: 0, repeatedCallsUntil: null });
  expect(await check(both)).toMatchObject({ resealed: 1, previous: 0, unreadable: 0, isFinished: false });
  const [row] = await db.select().from(accounts).where(eq(accounts.id, id));
  expect(openCredentials(after, id, row?.credentials ?? Buffer.alloc(0))).toEqual(passwords);
  expect((await check(both)).resealed).toBe(0);

  await db.execute(sql`update installation set value = split_part(value, ' ', 1) || ' 2020-01-01T00:00:00.000Z'
    where name = 'encryption_key'`);
  expect(await check(both)).toMatchObject({ olderExecutions: 0, repeatedCallsUntil: null, isFinished: true });
  expect(await check(after)).toMatchObject({ unreadable: 0, isFinished: true });
  expect(await check(createSecrets({ current: randomBytes(32) }))).toMatchObject({ unreadable: 1, isFinished: false });
});
