import { randomUUID } from 'node:crypto';
import { setTimeout } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from '@jest/globals';
import { MockActivityEnvironment } from '@temporalio/testing';
import { eq, sql } from 'drizzle-orm';
import { createChangeEmailActivities } from '../../src/activities/change-mailbox.ts';
import { isRunFinished, recordFinishedRun } from '../../src/db/coordination/finished-runs.ts';
import { emails, folders } from '../../src/db/schema/index.ts';
import { listFoldersWithStatus } from '../../src/imap/list.ts';
import { withMailbox, type MailboxDeps } from '../../src/mailbox/with-mailbox.ts';
import { syncMailbox } from '../../src/mailbox/sync-pass.ts';
import { newId } from '../../src/new-id.ts';
import { FakeImap, PLAIN } from '../helpers/fakes/fake-imap.ts';
import { openTestSession } from '../helpers/product/mail-session.ts';
import { mailText } from '../helpers/product/mail-text.ts';
import { mailboxDeps, storeServedAccount } from '../helpers/product/served-account.ts';
import { waitFor } from '../helpers/assert/wait.ts';
import { openSyncGround, type SyncGround } from '../helpers/product/watched-account.ts';

/*
 * A change is reported to its caller when it is stored, before its run has ended. If the worker is killed then, the run is
 * executed again, possibly after other changes by the caller.
 */

let ground: SyncGround;
let imap: FakeImap;
let deps: MailboxDeps;
let accountId: string;
let emailId: string;

beforeAll(async () => {
  ground = await openSyncGround();
});
afterAll(() => ground.close());

beforeEach(async () => {
  imap = await new FakeImap({ capabilities: `${PLAIN} MOVE`, folders: { Work: [], Trash: ['\\Trash'] } }).listen();
  deps = mailboxDeps(ground);
  const session = await openTestSession({ user: 'reader@example.test', password: 'p', imapPort: imap.port });
  accountId = newId('account');
  await storeServedAccount(deps, accountId, { port: imap.port, folders: await listFoldersWithStatus(session) });
  await session.end();
  imap.append('INBOX', mailText({ subject: 'hello' }));
  await withMailbox(deps, accountId, async (ctx) => {
    await syncMailbox({ ...ctx, baselineKnown: () => true }, { freshSession: true });
  });
  const [email] = await deps.db.select().from(emails).where(eq(emails.accountId, accountId));
  emailId = email!.id;
});
afterEach(async () => {
  await deps.sessions.close();
  await imap.close();
});

/** An execution of an activity as a part of a run. */
function execute<I>(run: string, activity: (input: I) => Promise<void>, input: I): Promise<void> {
  const workflowExecution = { workflowId: `change/${emailId}/${run}`, runId: run };
  return new MockActivityEnvironment({ workflowExecution }).run(activity, input);
}

const isUnread = async () =>
  (await deps.db.select().from(emails).where(eq(emails.accountId, accountId))).map((email) => email.isUnread);
const folderIdOf = async (path: string) =>
  (await deps.db.select().from(folders).where(eq(folders.accountId, accountId))).find((each) => each.path === path)!.id;
const paths = () => ['INBOX', 'Work', 'Trash'].filter((path) => imap.folder(path).messages.length > 0);

it('a run that is executed again does not undo what was marked since', async () => {
  const { markEmail } = createChangeEmailActivities(deps);
  const [read, unread] = [randomUUID(), randomUUID()];
  await execute(read, markEmail, { accountId, emailId, seen: true });
  await execute(unread, markEmail, { accountId, emailId, seen: false });
  const commands = imap.log.length;
  await execute(read, markEmail, { accountId, emailId, seen: true });
  expect(await isUnread()).toEqual([true]);
  expect(imap.log.slice(commands).map(({ name }) => name)).toEqual([]);
  // the same change by another call is made
  await execute(randomUUID(), markEmail, { accountId, emailId, seen: true });
  expect(await isUnread()).toEqual([false]);
});

it('a run that is executed again does not move an email back', async () => {
  const { moveEmail, trashEmail } = createChangeEmailActivities(deps);
  const folderId = await folderIdOf('Work');
  const move = randomUUID();
  await execute(move, moveEmail, { accountId, emailId, folderId });
  expect(paths()).toEqual(['Work']);
  await execute(randomUUID(), trashEmail, { accountId, emailId });
  await execute(move, moveEmail, { accountId, emailId, folderId });
  expect(paths()).toEqual(['Trash']);
});

it('an execution that waits for a session does not repeat what an earlier one of the same run has done', async () => {
  const { markEmail } = createChangeEmailActivities(deps);
  let free = () => {};
  const freed = new Promise<void>((resolve) => (free = resolve));
  let held = 0;
  const hold = () => {
    held += 1;
    return freed;
  };
  const busy = Array.from({ length: 3 }, () => withMailbox(deps, accountId, hold));
  await waitFor(() => held === 3);
  const run = randomUUID();
  const late = execute(run, markEmail, { accountId, emailId, seen: true });
  // it looks at the clock once it waits, which a busy machine lets it do late
  await setTimeout(2_000);
  await recordFinishedRun(deps.db, { workflowId: '', runId: run });
  free();
  await Promise.all([...busy, late]);
  expect(imap.log.map(({ name }) => name)).not.toContain('UID STORE');
  expect(await isUnread()).toEqual([true]);
});

it('a change and the record that its run has made it are one commit', async () => {
  const { markEmail, moveEmail } = createChangeEmailActivities(deps);
  const folderId = await folderIdOf('Work');
  for (const change of [
    (run: string) => execute(run, markEmail, { accountId, emailId, seen: true }),
    (run: string) => execute(run, moveEmail, { accountId, emailId, folderId }),
  ]) {
    const run = randomUUID();
    await change(run);
    const { rows } = await deps.db.execute(sql`
      select f.xmin = (select xmin from events where account_id = ${accountId} order by sequence desc limit 1) as is_one
      from finished_runs f where run_id = ${run}`);
    expect(rows).toEqual([{ is_one: true }]);
  }
});

it('a run that had nothing to change has done its work', async () => {
  const { markEmail, moveEmail } = createChangeEmailActivities(deps);
  const [unread, stay] = [randomUUID(), randomUUID()];
  await execute(unread, markEmail, { accountId, emailId, seen: false });
  await execute(stay, moveEmail, { accountId, emailId, folderId: await folderIdOf('INBOX') });
  for (const runId of [unread, stay]) expect(await isRunFinished(deps.db, { workflowId: '', runId })).toBe(true);
});

it('a failed run is not recorded as finished', async () => {
  const { moveEmail } = createChangeEmailActivities(deps);
  const run = randomUUID();
  await expect(execute(run, moveEmail, { accountId, emailId, folderId: newId('folder') })).rejects.toMatchObject({
    code: 'not_found',
  });
  await execute(run, moveEmail, { accountId, emailId, folderId: await folderIdOf('Work') });
  expect(paths()).toEqual(['Work']);
});
