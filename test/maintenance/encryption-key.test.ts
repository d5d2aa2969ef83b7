import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { defaultPayloadConverter, type Payload } from '@temporalio/common';
import { eq, sql } from 'drizzle-orm';
import { changeEncryptionKey, missingKey, unusedKey } from '../../src/maintenance/encryption-key.ts';
import { accounts } from '../../src/db/schema/index.ts';
import { createLogger } from '../../src/runtime/logger.ts';
import { openCredentials, sealCredentials } from '../../src/mailbox/settings.ts';
import { createSecrets } from '../../src/security/secrets.ts';
import { createPayloadCodec } from '../../src/temporal/codec.ts';
import { accountStart } from '../../src/activities/account.ts';
import { WORKFLOWS } from '../../src/workflows/names.ts';
import { waitFor } from '../helpers/assert/wait.ts';
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

it('is replaced while processes that still encrypt with the old key run', async () => {
  const { db, client } = the;
  const [oldKey, newKey] = [randomBytes(32), randomBytes(32)];
  const first = { current: oldKey, previous: newKey };
  const second = { current: newKey, previous: oldKey };
  let logged = '';
  const logger = createLogger('info', 'test', { write: (line) => void (logged += line) });
  const start = (keys: typeof first) =>
    changeEncryptionKey({ db, client, secrets: createSecrets(keys), logger, hasPrevious: true });
  await db.execute(sql`delete from installation where name = 'encryption_key'`);
  await db.update(accounts).set({ credentials: Buffer.alloc(0) });
  const id = await storeAccount(the);
  const passwords = { imapPassword: 'a', smtpPassword: 'b' };
  const store = (keys: { current: Buffer }) =>
    db
      .update(accounts)
      .set({ credentials: sealCredentials(createSecrets(keys), id, passwords) })
      .where(eq(accounts.id, id));
  const read = async (keys: typeof first) => {
    const [row] = await db.select().from(accounts).where(eq(accounts.id, id));
    return openCredentials(createSecrets(keys), id, row?.credentials ?? Buffer.alloc(0));
  };

  // every process gets the new key as the previous one; those that have the old key alone read all
  await store({ current: oldKey });
  expect(await start(first)).toMatchObject({ resealed: 0, previous: 0, unreadable: 0, isFinished: true });
  expect(logged).toContain('"ENCRYPTION_KEY_PREVIOUS not needed by anything stored"');
  expect(await missingKey({ db, client, secrets: createSecrets({ current: oldKey }), hasPrevious: false })).toBe(
    undefined,
  );

  // one has swapped them, and reseals at its start
  expect(await start(second)).toMatchObject({ resealed: 1, previous: 0, unreadable: 0 });
  expect(await read(first)).toEqual(passwords);
  await store(first);
  expect(await read(second)).toEqual(passwords);
  for (const [from, to] of [
    [first, second],
    [second, first],
  ] as const) {
    const sealed = await createPayloadCodec(from).encode([defaultPayloadConverter.toPayload('an id')]);
    const [opened] = await createPayloadCodec(to).decode(sealed);
    expect(defaultPayloadConverter.fromPayload(opened as Payload)).toBe('an id');
  }

  // the last one has swapped them
  expect(await start(second)).toMatchObject({ resealed: 1, previous: 0, unreadable: 0 });
});

it('is missing where a process must not start without it', async () => {
  const { db, client } = the;
  const [oldKey, newKey] = [randomBytes(32), randomBytes(32)];
  const old = createSecrets({ current: oldKey });
  const both = createSecrets({ current: newKey, previous: oldKey });
  const fresh = createSecrets({ current: newKey });
  await db.execute(sql`delete from installation where name = 'encryption_key'`);
  await db.update(accounts).set({ credentials: Buffer.alloc(0) });
  const missing = (secrets: typeof old) => missingKey({ db, client, secrets, hasPrevious: secrets === both });
  expect(await missing(old)).toBeUndefined();

  const id = await storeAccount(the);
  const credentials = sealCredentials(old, id, { imapPassword: 'a', smtpPassword: 'b' });
  await db.update(accounts).set({ credentials }).where(eq(accounts.id, id));
  expect(await missing(fresh)).toMatch(/^does not open 1 stored secrets: set the key .* as ENCRYPTION_KEY_PREVIOUS/);
  expect(await missing(both)).toBeUndefined();

  // the secrets are sealed anew, an execution of the time before runs
  const logger = createLogger('silent', 'test');
  const check = (secrets: typeof old) =>
    changeEncryptionKey({ db, client, secrets, logger, hasPrevious: secrets === both });
  await check(old);
  const run = await client.workflow.start(WORKFLOWS.account, accountStart(id, 4_000));
  await waitFor(async () => (await client.workflow.count('ExecutionStatus = "Running"')).count > 0);
  await db.update(accounts).set({ credentials: sealCredentials(fresh, id, { imapPassword: 'a', smtpPassword: 'b' }) });
  expect(await missing(fresh)).toMatch(/^does not open 1 running workflow executions/);
  await check(both);
  expect(await missing(fresh)).toMatch(/^does not open 1 running workflow executions/);
  await run.terminate('the test ends');
  await waitFor(async () => (await missing(fresh)) === undefined);
});

it('reseals nothing by command with a key that no worker has started with', async () => {
  const { db, client } = the;
  const keys = { current: randomBytes(32), previous: randomBytes(32) };
  const started = createSecrets(keys);
  const next = createSecrets({ current: keys.previous, previous: keys.current });
  await db.execute(sql`delete from installation where name = 'encryption_key'`);
  await db.update(accounts).set({ credentials: Buffer.alloc(0) });
  expect(await unusedKey(db, next)).toBeUndefined();

  const logger = createLogger('silent', 'test');
  await changeEncryptionKey({ db, client, secrets: started, logger, hasPrevious: true });
  expect(await unusedKey(db, started)).toBeUndefined();
  expect(await unusedKey(db, next)).toBe(
    'is not the key that the workers last started with: restart them with it first',
  );
});

it('is needed by executions that began while processes were restarted with the next one', async () => {
  const { db, client } = the;
  await db.update(accounts).set({ credentials: Buffer.alloc(0) });
  const secrets = createSecrets({ current: randomBytes(32), previous: randomBytes(32) });
  const deps = { db, client, secrets, logger: createLogger('silent', 'test') };
  const run = await client.workflow.start(WORKFLOWS.account, accountStart(await storeAccount(the), 4_000));
  await db.update(accounts).set({ credentials: Buffer.alloc(0) });
  await waitFor(async () => (await client.workflow.count('ExecutionStatus = "Running"')).count === 1);
  const changed = (minutesAgo: number) =>
    db.execute(sql`insert into installation (name, value)
      values ('encryption_key', ${`${secrets.keyId} ${new Date(Date.now() - minutesAgo * 60_000).toISOString()}`})
      on conflict (name) do update set value = excluded.value`);
  const older = async (hasPrevious: boolean) => (await changeEncryptionKey({ ...deps, hasPrevious })).olderExecutions;
  await changed(10);
  expect([await older(true), await older(false)]).toEqual([1, 0]);
  expect(await missingKey({ ...deps, hasPrevious: false })).toBeUndefined();
  await changed(20);
  expect(await older(true)).toBe(0);
  await run.terminate('the test ends');
});
