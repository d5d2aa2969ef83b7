import { afterAll, afterEach, beforeAll, beforeEach, expect, it, jest } from '@jest/globals';
import { MockActivityEnvironment } from '@temporalio/testing';
import { eq } from 'drizzle-orm';
import { createBatchActivities } from '../../src/activities/change-emails.ts';
import { changeAccount } from '../../src/db/queries/accounts.ts';
import { createBatch, getBatch, listBatchResults } from '../../src/db/queries/batches.ts';
import { emails, folders, type StoredBatchChange } from '../../src/db/schema/index.ts';
import { listFoldersWithStatus } from '../../src/imap/list.ts';
import { withMailbox, type MailboxDeps } from '../../src/mailbox/with-mailbox.ts';
import { syncMailbox } from '../../src/mailbox/sync-pass.ts';
import { newId } from '../../src/new-id.ts';
import { FakeImap, PLAIN, type Script } from '../helpers/fakes/fake-imap.ts';
import { openTestSession } from '../helpers/product/mail-session.ts';
import { mailText } from '../helpers/product/mail-text.ts';
import { mailboxDeps, storeServedAccount } from '../helpers/product/served-account.ts';
import { openSyncGround, type SyncGround } from '../helpers/product/watched-account.ts';

/** Steps of a batch on a mail server that fails: which emails fail with it, and what the workflow learns. */

const MANY = 8;
const STAR = { flags: { add: ['\\Flagged'], remove: [] } };

let ground: SyncGround;
let imap: FakeImap;
let deps: MailboxDeps;
let accountId: string;
let ids: string[];

beforeAll(async () => {
  ground = await openSyncGround();
});
afterAll(() => ground.close());

beforeEach(async () => {
  imap = await new FakeImap({ capabilities: `${PLAIN} MOVE`, folders: { Work: [] } }).listen();
  deps = mailboxDeps(ground);
  const session = await openTestSession({ user: 'reader@example.test', password: 'p', imapPort: imap.port });
  accountId = newId('account');
  await storeServedAccount(deps, accountId, { port: imap.port, folders: await listFoldersWithStatus(session) });
  await session.end();
  for (let n = 0; n < MANY; n++) imap.append('INBOX', mailText({ subject: `mail ${n}` }));
  await withMailbox(deps, accountId, async (ctx) => {
    await syncMailbox({ ...ctx, baselineKnown: () => true }, { freshSession: true });
  });
  const rows = await deps.db.select().from(emails).where(eq(emails.accountId, accountId)).orderBy(emails.id);
  ids = rows.map(({ id }) => id);
});
afterEach(async () => {
  await deps.sessions.close();
  await imap.close();
});

async function stored(emailIds: string[], change: StoredBatchChange = STAR): Promise<string> {
  const id = newId('batch');
  await createBatch(deps.db, { id, accountId, change, emailIds });
  return id;
}

/** Runs one attempt of a step. */
function step(batchId: string, attempt: number) {
  const { changeEmailsOf } = createBatchActivities(deps);
  return new MockActivityEnvironment({ attempt }).run(changeEmailsOf, { accountId, batchId, sleeps: true });
}

async function results(batchId: string): Promise<string[]> {
  const { data } = await listBatchResults(deps.db, batchId, { status: undefined, after: 0, limit: 250 });
  return data.map(({ status, error }) => error?.type ?? status);
}

/** Ends the connection when one of these messages is changed. */
const cutsAt = (isHit: (set: string) => boolean): NonNullable<Script['command']> => {
  return (command, session) => {
    if (!/^UID (STORE|COPY)$/.test(command.name) || !isHit(String(command.args[0]))) return false;
    session.socket.destroy();
    return true;
  };
};

it('an email that loses the connection each time fails alone', async () => {
  const batch = await stored(ids);
  const third = (set: string) => set === '3' || set.includes(':');
  imap.script.command = cutsAt(third);
  await expect(step(batch, 1)).rejects.toMatchObject({ code: 'provider_error', refused: false });
  expect(new Set(await results(batch))).toEqual(new Set(['pending']));
  expect(await step(batch, 3)).toMatchObject({ changed: MANY - 1, failed: 1, pending: 0 });
  expect((await results(batch)).filter((each) => each !== 'changed')).toEqual(['errors/provider_error']);
});

it('an email that is refused for now stays pending alone', async () => {
  const batch = await stored(ids);
  imap.script.command = (command, session) => {
    if (command.name !== 'UID STORE' || !/^3$|:/.test(String(command.args[0]))) return false;
    session.done(command, 'NO [INUSE] The message is in use');
    return true;
  };
  await expect(step(batch, 1)).rejects.toMatchObject({ code: 'provider_error' });
  expect(await step(batch, 3)).toMatchObject({ changed: MANY - 1, failed: 0, pending: 1 });
  await expect(step(batch, 6)).rejects.toMatchObject({ code: 'provider_error' });
  expect((await results(batch)).filter((each) => each !== 'changed')).toEqual(['pending']);
  imap.script = {};
  expect(await step(batch, 1)).toMatchObject({ changed: MANY, pending: 0 });
});

it('a step that changes emails one by one stops when it is cancelled', async () => {
  const batch = await stored(ids);
  const environment = new MockActivityEnvironment({ attempt: 3 });
  imap.script.command = (command) => {
    if (command.name === 'UID STORE') environment.cancel();
    return false;
  };
  const { changeEmailsOf } = createBatchActivities(deps);
  await expect(environment.run(changeEmailsOf, { accountId, batchId: batch, sleeps: true })).rejects.toThrow();
  expect((await results(batch)).filter((each) => each === 'pending')).toHaveLength(MANY - 1);
});

it('a step that changes emails alone stops when it is cancelled', async () => {
  const rows = await deps.db.select().from(folders).where(eq(folders.accountId, accountId));
  const batch = await stored(ids, { folderId: rows.find(({ path }) => path === 'Work')!.id });
  await deps.sessions.drop(accountId);
  imap.capabilities = PLAIN;
  const environment = new MockActivityEnvironment({ attempt: 1 });
  imap.script.command = (command) => {
    if (command.name === 'UID COPY') environment.cancel();
    return false;
  };
  const { changeEmailsOf } = createBatchActivities(deps);
  await expect(environment.run(changeEmailsOf, { accountId, batchId: batch, sleeps: true })).rejects.toThrow();
  expect((await results(batch)).filter((each) => each === 'pending')).toHaveLength(MANY - 1);
});

it('a batch of which the last emails are changed after the time of a step is completed by it', async () => {
  const batch = await stored(ids);
  const now = performance.now.bind(performance);
  let later = 0;
  const clock = jest.spyOn(performance, 'now').mockImplementation(() => now() + later);
  imap.script.command = (command) => {
    if (command.name === 'UID STORE') later = 60_000;
    return false;
  };
  try {
    expect(await step(batch, 1)).toMatchObject({ changed: MANY, pending: 0 });
  } finally {
    clock.mockRestore();
  }
  expect(await getBatch(deps.db, accountId, batch)).toMatchObject({ status: 'completed' });
});

it('an email that was moved to a Trash outside the account is changed, although its worker stops then', async () => {
  imap.createFolder('Trash', ['\\Trash']);
  await changeAccount(deps.db, accountId, { folderChoice: { exclude: ['TRASH'] } });
  const batch = await stored(ids.slice(0, 1), { trash: true });
  const stopping: MailboxDeps = {
    ...deps,
    storage: { ...deps.storage, delete: () => Promise.reject(new Error('killed')) },
  };
  const { changeEmailsOf } = createBatchActivities(stopping);
  const attempt = new MockActivityEnvironment({ attempt: 1 });
  await expect(attempt.run(changeEmailsOf, { accountId, batchId: batch, sleeps: true })).rejects.toThrow();
  expect(imap.folder('Trash').messages).toHaveLength(1);
  expect(await step(batch, 2)).toMatchObject({ changed: 1, failed: 0 });
});

it('a mail server that cuts every connection fails no email', async () => {
  const batch = await stored(ids);
  imap.script.command = cutsAt(() => true);
  for (const attempt of [1, 3, 6]) {
    await expect(step(batch, attempt)).rejects.toMatchObject({ code: 'provider_error', refused: false });
  }
  expect(new Set(await results(batch))).toEqual(new Set(['pending']));
  imap.script = {};
  expect(await step(batch, 1)).toMatchObject({ changed: MANY, pending: 0 });
});

it('a mail server that cuts every connection fails no email that is moved by a copy, alone', async () => {
  const rows = await deps.db.select().from(folders).where(eq(folders.accountId, accountId));
  const batch = await stored(ids.slice(0, 1), { folderId: rows.find(({ path }) => path === 'Work')!.id });
  await deps.sessions.drop(accountId);
  imap.capabilities = PLAIN;
  imap.script.command = cutsAt(() => true);
  await expect(step(batch, 6)).rejects.toMatchObject({ code: 'provider_error', refused: false });
  expect(await results(batch)).toEqual(['pending']);
  // its second try waits until the first one counts as dead
}, 60_000);

it('a mail server that refuses logins for now fails no email', async () => {
  const batch = await stored(ids);
  await deps.sessions.drop(accountId);
  imap.script.greeting = '* BYE maintenance';
  await expect(step(batch, 6)).rejects.toMatchObject({ code: 'provider_error' });
  expect(new Set(await results(batch))).toEqual(new Set(['pending']));
});

it('a mail server that asks for a pause is not called again: the workflow sleeps', async () => {
  const batch = await stored(ids);
  imap.script.command = (command, session) => {
    if (command.name !== 'UID STORE') return false;
    session.done(command, 'BAD Request is throttled. Suggested Backoff Time: 90000 milliseconds');
    return true;
  };
  expect(await step(batch, 1)).toMatchObject({ pauseMs: 90_000, changed: 0, pending: MANY });
});

it('a batch behind another one of the same emails does not keep a worker busy: the workflow sleeps', async () => {
  const first = await stored(ids.slice(0, 1));
  const second = await stored(ids);
  const began = performance.now();
  expect(await step(second, 1)).toMatchObject({ isBehind: true, pending: MANY });
  expect(performance.now() - began).toBeLessThan(5_000);
  await step(first, 1);
  expect(await step(second, 1)).toMatchObject({ changed: MANY, pending: 0 });
});
