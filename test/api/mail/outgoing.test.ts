import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { type Client, WorkflowFailedError } from '@temporalio/client';
import { eq, inArray } from 'drizzle-orm';
import type { ApiError } from '../../../src/contract/errors.ts';
import { createDraftCommands } from '../../../src/api/commands/drafts.ts';
import { createSendCommands } from '../../../src/api/commands/sends.ts';
import type { Db } from '../../../src/db/driver/client.ts';
import { drafts, sends } from '../../../src/db/schema/index.ts';
import { newId } from '../../../src/new-id.ts';
import { giveUp } from '../../../src/outgoing/send-state.ts';
import { openStorage, type Storage } from '../../../src/storage/storage.ts';
import { testDatabase, type TestDatabase } from '../../helpers/servers/postgres.ts';
import { storeEmail } from '../../helpers/assert/rows.ts';
import { storeAccount } from '../../helpers/product/stored-account.ts';
import { waitFor } from '../../helpers/assert/wait.ts';

/** Input of sends and drafts, stored before a worker composes them. */

let test: TestDatabase;
let dir: string;
let storage: Storage;
let accountId: string;

beforeAll(async () => {
  test = await testDatabase();
  dir = await mkdtemp(join(tmpdir(), 'outgoing-test-'));
  storage = openStorage(pathToFileURL(dir).href);
});
afterAll(async () => {
  await test.drop();
  await rm(dir, { recursive: true, force: true });
});
beforeEach(async () => {
  accountId = await storeAccount(test.database);
});

/** Every workflow fails. */
const client = {
  withDeadline: () => Promise.reject(new WorkflowFailedError('refused', undefined, 'RETRY_POLICY_NOT_SET')),
} as unknown as Client;
const runs = { client, hasWorker: () => Promise.resolve(true) };
/** Temporal does not respond. */
const silent = { withDeadline: () => new Promise<never>(() => {}) } as unknown as Client;
const caller = { apiKeyId: 'pk_1', apiKeyName: 'key', permissions: 'full', accountIds: null } as const;
const MAIL = { to: [{ email: 'bea@elsewhere.test' }], subject: 'Hello', plain_text: 'Hi' };

const failing = <T extends object>(whole: T, method: keyof T): T =>
  new Proxy(whole, {
    get: (target, name) =>
      name === method
        ? () => {
            throw new Error('away');
          }
        : Reflect.get(target, name, target),
  });

async function files(): Promise<string[]> {
  const paths = await readdir(join(dir, accountId), { recursive: true }).catch(() => []);
  return paths.filter((path) => path.endsWith('.json')).map((path) => basename(path));
}

const KINDS = [
  {
    what: 'a send',
    newObject: () => newId('email'),
    make: (deps: { db: Db; storage: Storage }, id: string) =>
      createSendCommands({ ...runs, ...deps }).sendEmail(accountId, caller, id, MAIL),
    state: async (id: string) => (await test.database.db.select().from(sends).where(eq(sends.id, id)))[0]?.state,
  },
  {
    what: 'a draft',
    newObject: () => newId('draft'),
    make: (deps: { db: Db; storage: Storage }, id: string) =>
      createDraftCommands({ ...runs, ...deps }).createDraft(accountId, { caller, id }, MAIL),
    state: async (id: string) => (await test.database.db.select().from(drafts).where(eq(drafts.id, id)))[0]?.state,
  },
];

describe.each(KINDS)('the input of $what', ({ newObject, make, state }) => {
  it('is removed from the storage when it cannot be recorded', async () => {
    const { db } = test.database;
    await expect(make({ db: failing(db, 'insert'), storage }, newObject())).rejects.toThrow('away');
    expect(await files()).toEqual([]);
  });

  it('that cannot be stored marks it as failed, and a new call succeeds', async () => {
    const { db } = test.database;
    const id = newObject();
    await expect(make({ db, storage: failing(storage, 'put') }, id)).rejects.toThrow('away');
    expect(await state(id)).toBe('failed');
    await expect(make({ db, storage }, id)).rejects.toMatchObject({ name: 'ApiError' });
    expect(await files()).toEqual([`${id}.json`]);
  });

  it('is stored by the next call when the first crashed before storing it', async () => {
    const { db } = test.database;
    const id = newObject();
    await expect(make({ db, storage }, id)).rejects.toMatchObject({ name: 'ApiError' });
    await storage.delete([`${accountId}/outgoing/${id}.json`]);
    await expect(make({ db, storage }, id)).rejects.toMatchObject({ name: 'ApiError' });
    expect(await files()).toEqual([`${id}.json`]);
  });
});

it('a send whose turn does not come is refused without blaming its provider, and is not sent later', async () => {
  const { db } = test.database;
  const { sendEmail } = createSendCommands({ ...runs, client: silent, db, storage, leaveMs: 1_000 });
  const ids = Array.from({ length: 3 }, () => newId('email'));
  const answers = await Promise.allSettled(ids.map((id) => sendEmail(accountId, caller, id, MAIL)));
  const reasons = answers.map((answer) => (answer.status === 'rejected' ? (answer.reason as ApiError) : undefined));
  expect(reasons.map((reason) => reason?.code).sort()).toEqual([
    'service_unavailable',
    'service_unavailable',
    'too_many_requests',
  ]);
  const refused = reasons.findIndex((reason) => reason?.code === 'too_many_requests');
  expect(reasons[refused]?.detail).toMatch(/^too many other calls .*: the email was not sent$/);
  const [row] = await db
    .select()
    .from(sends)
    .where(eq(sends.id, ids[refused] ?? ''));
  expect(row?.state).toBe('failed');
});

it('a send to many recipients has more time, as the SMTP server may answer for one after the other', async () => {
  const { db } = test.database;
  const { sendEmail, sendDraft } = createSendCommands({ ...runs, client: silent, db, storage, leaveMs: 200 });
  const addresses = Array.from({ length: 20 }, (_, n) => `bob${n}@example.test`);
  const { draftId } = await storeEmail(test.database, accountId, {
    ...{ draft: true, to: addresses.slice(0, 10), cc: addresses.slice(10, 15), bcc: addresses.slice(15) },
  });
  const began = performance.now();
  const to = addresses.map((email) => ({ email }));
  const took = async (send: Promise<unknown>) => {
    await expect(send).rejects.toMatchObject({ code: 'service_unavailable' });
    return performance.now() - began;
  };
  const times = await Promise.all([
    took(sendEmail(accountId, caller, newId('email'), { ...MAIL, to })),
    took(sendDraft(accountId, caller, newId('email'), draftId ?? '')),
  ]);
  for (const ms of times) expect(ms).toBeGreaterThan(2_000);
});

it('a send is renewed while it waits for its turn, and so not given up', async () => {
  const { db } = test.database;
  const { sendEmail } = createSendCommands({ ...runs, client: silent, db, storage, leaveMs: 2_000, renewMs: 20 });
  const ids = Array.from({ length: 4 }, () => newId('email'));
  const answers = Promise.allSettled(ids.map((id) => sendEmail(accountId, caller, id, MAIL)));
  const times = async () => (await db.select().from(sends).where(inArray(sends.id, ids))).map((row) => row.updatedAt);
  await waitFor(async () => (await times()).length === ids.length);
  const long = new Date(Date.now() - 60_000);
  await db.update(sends).set({ updatedAt: long }).where(inArray(sends.id, ids));
  await waitFor(async () => (await times()).every((at) => at > long));
  await answers;
});

it('a draft is renewed while it waits for its turn, and so not given up', async () => {
  const { db } = test.database;
  const { createDraft } = createDraftCommands({ ...runs, client: silent, db, storage, renewMs: 20 });
  const ids = Array.from({ length: 7 }, () => newId('draft'));
  const answers = Promise.allSettled(ids.map((id) => createDraft(accountId, { caller, id }, MAIL)));
  const times = async () => (await db.select().from(drafts).where(inArray(drafts.id, ids))).map((row) => row.updatedAt);
  await waitFor(async () => (await times()).length === ids.length);
  // as if they had been recorded so long ago
  const long = new Date(Date.now() - 60_000);
  await db.update(drafts).set({ updatedAt: long }).where(inArray(drafts.id, ids));
  await waitFor(async () => (await times()).every((at) => at > long));
  await answers;
});

it('a send that its run has given up was not sent, and its caller does not wait for the run to end', async () => {
  const { db } = test.database;
  const id = newId('email');
  const running = {
    result: () => new Promise<never>(() => {}),
    describe: async () => ({ status: { name: 'RUNNING' }, historyLength: 9 }),
  };
  const workflow = { start: async () => ({ firstExecutionRunId: 'run' }), getHandle: () => running };
  const call = <T>(_: unknown, work: () => T) => work();
  const beginning = { workflow, withDeadline: call, withAbortSignal: call } as unknown as Client;
  const { sendEmail } = createSendCommands({ ...runs, client: beginning, db, storage, leaveMs: 500 });
  const answer = sendEmail(accountId, caller, id, MAIL);
  answer.catch(() => {});
  await waitFor(() => giveUp(db, id));
  await expect(answer).rejects.toMatchObject({
    code: 'provider_error',
    detail: expect.stringMatching(/^the email was not sent/),
  });
});
