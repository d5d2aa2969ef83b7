import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { withFailures } from '../../src/activities/failures.ts';
import { createChangeCommands } from '../../src/api/commands/changes.ts';
import type { ChangeCommands } from '../../src/api/deps.ts';
import { ApiError } from '../../src/contract/errors.ts';
import { createFinishedRuns } from '../../src/db/coordination/finished-runs.ts';
import { MailError } from '../../src/mail-wire/mail-error.ts';
import { newId } from '../../src/new-id.ts';
import { changeWorkflowId } from '../../src/workflows/names.ts';
import { waitFor } from '../helpers/assert/wait.ts';
import { startTestWorkers, testClient, type TestWorkers } from '../helpers/product/temporal-workers.ts';

/** A change of a mailbox as a run: the input of its activity, and the response to the caller. */

const accountId = newId('account');
const emailId = newId('email');
const folderId = newId('folder');

let workers: TestWorkers;
let commands: ChangeCommands;
let asked: [string, object][] = [];
let act: (tries: number) => Promise<void>;

const runs = () => ({ client: workers.api, hasWorker: () => Promise.resolve(true) });

beforeAll(async () => {
  const names = ['markEmail', 'moveEmail', 'trashEmail', 'updateEmail', 'createFolder', 'changeFolder', 'deleteFolder'];
  const activities = names.map((name) => [
    name,
    (input: object) => {
      asked.push([name, input]);
      return act(asked.length);
    },
  ]);
  workers = await startTestWorkers(withFailures(Object.fromEntries(activities) as Record<string, () => Promise<void>>));
  commands = createChangeCommands(runs());
}, 60_000);
afterAll(() => workers.stop());

beforeEach(() => {
  asked = [];
  act = () => Promise.resolve();
});

describe('a change', () => {
  it('is one activity each', async () => {
    await commands.markEmail(accountId, emailId, true);
    await commands.markEmail(accountId, emailId, false);
    await commands.moveEmail(accountId, emailId, folderId);
    await commands.trashEmail(accountId, emailId);
    const flags = { add: ['\\Flagged'], remove: ['x'] };
    await commands.updateEmail(accountId, emailId, { flags, folderId });
    await commands.createFolder(accountId, folderId, { name: 'New', parentId: null });
    await commands.changeFolder(accountId, folderId, { name: 'Newer' });
    await commands.changeFolder(accountId, folderId, { parent_id: null });
    await commands.deleteFolder(accountId, folderId);
    expect(asked).toEqual([
      ['markEmail', { accountId, emailId, seen: true }],
      ['markEmail', { accountId, emailId, seen: false }],
      ['moveEmail', { accountId, emailId, folderId, kind: 'move' }],
      ['trashEmail', { accountId, emailId, kind: 'trash' }],
      ['updateEmail', { accountId, emailId, flags, folderId, kind: 'update' }],
      ['createFolder', { accountId, folderId, name: 'New', parentId: null, kind: 'createFolder' }],
      ['changeFolder', { accountId, folderId, name: 'Newer', kind: 'changeFolder' }],
      ['changeFolder', { accountId, folderId, parentId: null, kind: 'changeFolder' }],
      ['deleteFolder', { accountId, folderId, kind: 'deleteFolder' }],
    ]);
  });

  it('of the same id is made once: a folder that was created is not created again', async () => {
    const id = newId('folder');
    const create = () => commands.createFolder(accountId, id, { name: 'Once', parentId: null });
    await Promise.all([create(), create()]);
    await create();
    expect(asked).toHaveLength(1);
    const run = await workers.client.workflow.getHandle(changeWorkflowId(id, 'create')).describe();
    expect(run.searchAttributes).toMatchObject({ MailAccount: [accountId] });
  });

  it('that deletes a folder is made once at a time, however often it is requested, and again after it has ended', async () => {
    const id = newId('folder');
    let release = () => {};
    act = () => new Promise((resolve) => (release = resolve));
    const impatient = createChangeCommands({ ...runs(), changeDeadlineMs: 500 });
    await expect(impatient.deleteFolder(accountId, id)).rejects.toMatchObject({ code: 'provider_error' });
    const answers = [commands.deleteFolder(accountId, id), commands.deleteFolder(accountId, id)];
    await expect(impatient.deleteFolder(accountId, id)).rejects.toMatchObject({ code: 'provider_error' });
    expect(asked).toHaveLength(1);
    release();
    await Promise.all(answers);
    act = () => Promise.reject(new ApiError('already_exists', 'taken'));
    await expect(commands.deleteFolder(accountId, id)).rejects.toMatchObject({ code: 'already_exists' });
    act = () => Promise.resolve();
    await commands.deleteFolder(accountId, id);
    expect(asked).toHaveLength(3);
  });

  it.each([
    ['not_found', 1, new ApiError('not_found', 'gone')],
    ['already_exists', 1, new ApiError('already_exists', 'taken')],
    ['provider_rejected', 1, new MailError('provider_rejected', 'imap', 'refused')],
    ['invalid_credentials', 1, new MailError('invalid_credentials', 'imap', 'no')],
    ['provider_error', 3, new MailError('provider_error', 'imap', 'away')],
  ])('that fails with %s is reported after %d attempts', async (code, tries, error) => {
    act = () => Promise.reject(error);
    await expect(commands.markEmail(accountId, emailId, true)).rejects.toMatchObject({ name: 'ApiError', code });
    expect(asked).toHaveLength(tries);
  });

  it('that fails once is made by the second attempt', async () => {
    act = (tries) =>
      tries === 1 ? Promise.reject(new MailError('provider_error', 'imap', 'away')) : Promise.resolve();
    await commands.trashEmail(accountId, emailId);
    expect(asked).toHaveLength(2);
  });

  it('that is stored is reported before its run has ended; where the notification is lost, at its end', async () => {
    let release = () => {};
    act = () => new Promise((resolve) => (release = resolve));
    const finished = createFinishedRuns();
    const notified = createChangeCommands({ ...runs(), finished });
    const ids = [newId('folder'), newId('folder')] as const;
    const create = (id: string) => notified.createFolder(accountId, id, { name: 'New', parentId: null });
    const answer = create(ids[0]);
    await waitFor(async () => asked.length === 1);
    finished.receive(undefined);
    finished.receive(changeWorkflowId(ids[1], 'create'));
    finished.receive(changeWorkflowId(ids[0], 'create'));
    await answer;
    const run = workers.client.workflow.getHandle(changeWorkflowId(ids[0], 'create'));
    expect((await run.describe()).status.name).toBe('RUNNING');
    release();
    await run.result();
    act = () => Promise.resolve();
    await create(ids[1]);
  });

  it('that takes long is reported to continue', async () => {
    let release = () => {};
    act = () => new Promise((resolve) => (release = resolve));
    const impatient = createChangeCommands({ ...runs(), changeDeadlineMs: 500 });
    const answer = impatient.trashEmail(accountId, emailId);
    await expect(answer).rejects.toMatchObject({
      code: 'provider_error',
      detail: expect.stringMatching(/it continues/),
    });
    release();
  });

  it('that no worker takes is known not to be made, by every caller who waits for it', async () => {
    const idle = await testClient();
    const id = newId('folder');
    const { createFolder } = createChangeCommands({ client: idle.api, hasWorker: () => Promise.resolve(false) });
    const began = Date.now();
    const create = () => createFolder(accountId, id, { name: 'Never', parentId: null });
    for (const end of await Promise.allSettled([create(), create()])) {
      expect(end).toMatchObject({
        status: 'rejected',
        reason: { code: 'service_unavailable', detail: 'no worker is available: nothing was changed' },
      });
    }
    expect(Date.now() - began).toBeLessThan(5_000);
    const stopWorkers = await idle.work({});
    const run = idle.client.workflow.getHandle(changeWorkflowId(id, 'create'));
    expect((await run.describe()).status.name).toBe('TERMINATED');
    await stopWorkers();
    await idle.close();
  }, 30_000);

  it('waits for a worker that has much to do, until the deadline', async () => {
    const busy = await testClient();
    const id = newId('folder');
    const commandsOf = (changeDeadlineMs: number) =>
      createChangeCommands({ client: busy.api, hasWorker: () => Promise.resolve(true), changeDeadlineMs });
    const create = (ms: number) => commandsOf(ms).createFolder(accountId, id, { name: 'Late', parentId: null });
    const refused = { code: 'service_unavailable', detail: 'no worker is available: nothing was changed' };
    await expect(create(500)).rejects.toMatchObject(refused);
    const answer = create(30_000);
    await sleep(1_500);
    const stopWorkers = await busy.work(withFailures({ createFolder: () => act(1) }));
    await answer;
    await stopWorkers();
    await busy.close();
  }, 60_000);

  it('whose worker is lost after it has begun may still be made', async () => {
    let release = () => {};
    act = () => new Promise((resolve) => (release = resolve));
    const left = createChangeCommands({
      client: workers.api,
      hasWorker: () => Promise.resolve(false),
      changeDeadlineMs: 1_500,
    });
    await expect(left.trashEmail(accountId, emailId)).rejects.toMatchObject({
      code: 'service_unavailable',
      detail: 'no worker is available: the change may still be made',
    });
    release();
  });

  it('that an operator terminates may have been made', async () => {
    let release = () => {};
    act = () => new Promise((resolve) => (release = resolve));
    const id = newId('folder');
    const answer = commands.createFolder(accountId, id, { name: 'Ended', parentId: null });
    const ended = expect(answer).rejects.toMatchObject({
      code: 'service_unavailable',
      detail: expect.stringMatching(/: the change may still be made$/),
    });
    await waitFor(async () => asked.length === 1);
    await workers.client.workflow.getHandle(changeWorkflowId(id, 'create')).terminate();
    await ended;
    release();
  });

  it('is 503 while the database is away', async () => {
    act = () => new Promise((resolve) => setTimeout(resolve, 5_000));
    const away = Object.assign(new Error('refused'), { code: 'ECONNREFUSED' });
    const blind = createChangeCommands({ client: workers.api, hasWorker: () => Promise.reject(away) });
    const began = Date.now();
    await expect(blind.trashEmail(accountId, emailId)).rejects.toMatchObject({
      code: 'service_unavailable',
      detail: 'the database cannot be reached now: the change may still be made',
    });
    expect(Date.now() - began).toBeLessThan(5_000);
  });
});
