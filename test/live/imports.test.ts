import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { Import } from '../../src/contract/runs/import.ts';
import { startLimitingProxy } from '../helpers/fakes/limiting-proxy.ts';
import { addUser } from '../helpers/product/mail-user.ts';
import {
  brief,
  type Connected,
  connectLogin,
  connectUser,
  type OwnLive,
  startLive,
  typesOf,
} from '../helpers/product/live.ts';
import type { Mailbox } from '../helpers/product/mailbox.ts';
import { waitFor } from '../helpers/assert/wait.ts';

/** Imports of the mail that a mailbox held before it was connected. */

let live: OwnLive;
beforeAll(async () => {
  // another worker takes over soon
  live = await startLive({ SYNC_HEARTBEAT_TIMEOUT: '4s' });
}, 120_000);
afterAll(() => live?.close());

const daysAgo = (days: number) => new Date(Date.now() - days * 86_400_000);
async function fill(box: Mailbox, count: number, folder = 'INBOX'): Promise<void> {
  for (let index = 0; index < count; index++) {
    await box.append(folder, { subject: `old ${folder} ${index}` }, { date: daysAgo(400) });
  }
}

const path = ({ account }: Connected) => `/accounts/${account.id}/imports`;
const begin = (owner: Connected, body: object = {}) => live.api.post<Import>(path(owner), body);
const read = (owner: Connected, { id }: Import) => live.api.get<Import>(`${path(owner)}/${id}`);
const change = (owner: Connected, { id }: Import, verb: string) =>
  live.api.post<Import>(`${path(owner)}/${id}/${verb}`);
const TYPES = ['import.started', 'import.completed', 'import.failed', 'import.cancelled'] as const;
const completed = (owner: Connected, timeoutMs = 60_000) => owner.event('import.completed', undefined, { timeoutMs });

/** The subjects of all stored emails; fails on one that is stored twice. */
async function subjects(owner: Connected): Promise<Set<string>> {
  const found: string[] = [];
  let cursor: string | null = null;
  do {
    const query: Record<string, string> = { limit: '250', meta_only: 'true', ...(cursor === null ? {} : { cursor }) };
    const page = await live.api.emails(owner.account.id, query);
    found.push(...page.data.map(({ subject }) => subject));
    cursor = page.cursor;
  } while (cursor !== null);
  expect(new Set(found).size).toBe(found.length);
  return new Set(found);
}

test('a whole mailbox is imported without email.new, then a second import finds nothing new', async () => {
  const ana = await connectUser(live, {
    before: async (box) => {
      await fill(box, 12);
      await fill(box, 5, 'Archive');
    },
  });
  const made = await begin(ana);
  const { call } = await ana.receive('INBOX', 'new beside it');
  expect(call.event.type).toBe('email.new');
  await completed(ana);
  expect(await read(ana, made)).toMatchObject({
    status: 'completed',
    imported: 17,
    progress: { messages_known: 17, messages_done: 17, messages_left: 0 },
  });
  expect((await subjects(ana)).size).toBe(18);
  expect(typesOf(ana.events(...TYPES))).toEqual(['import.started', 'import.completed']);
  const again = await begin(ana);
  await waitFor(async () => (await read(ana, again)).status === 'completed', { timeoutMs: 30_000 });
  expect(await read(ana, again)).toMatchObject({ imported: 0, progress: { messages_known: 0 } });
  expect(brief(await ana.settle()).filter((line) => line.startsWith('email.'))).toEqual(['email.new new beside it']);
  await ana.box.close();
}, 120_000);

test('a window and chosen folders are kept to', async () => {
  const ben = await connectUser(live, {
    before: async (box) => {
      await fill(box, 3);
      await box.append('INBOX', { subject: 'in the window' }, { date: daysAgo(100) });
      await box.append('INBOX', { subject: 'too new' }, { date: daysAgo(10) });
      await box.append('Archive', { subject: 'another folder' }, { date: daysAgo(100) });
    },
  });
  await begin(ben, { since: daysAgo(200).toISOString(), until: daysAgo(50).toISOString(), folders: ['INBOX'] });
  await completed(ben);
  expect([...(await subjects(ben))]).toEqual(['in the window']);
  await ben.box.close();
}, 120_000);

test('`history` at the connect imports all mail after the initial sync', async () => {
  const cleo = await connectUser(live, {
    before: async (box) => {
      await fill(box, 6);
      await box.append('INBOX', { subject: 'recent' }, { date: daysAgo(1) });
    },
    config: { initial_sync_enable: true, initial_sync_days: 7, history: 'all' },
  });
  const ended = await completed(cleo);
  const synced = await cleo.event('account.initial_sync.completed');
  expect(synced.event.sequence).toBeLessThan(ended.event.sequence);
  expect((ended.event.data['import'] as Import).imported).toBe(6);
  expect((await subjects(cleo)).size).toBe(7);
  expect(brief(await cleo.settle()).filter((line) => line.startsWith('email.'))).toEqual([]);
  await cleo.box.close();
}, 120_000);

test('a server that processes 1,000 messages per command is read whole', async () => {
  const user = await addUser();
  const proxy = await startLimitingProxy(user.imapPort, 1_000);
  try {
    const dee = await connectLogin(live, user, { before: (box) => fill(box, 1_500), imapPort: proxy.port });
    const made = await begin(dee);
    await completed(dee, 120_000);
    expect(await read(dee, made)).toMatchObject({ imported: 1_500, progress: { messages_left: 0 } });
    await dee.box.close();
  } finally {
    await proxy.close();
  }
}, 240_000);

test('it is paused, survives two kills of the worker, and imports nothing twice', async () => {
  const OLD = 1_200;
  const eve = await connectUser(live, { before: (box) => fill(box, OLD) });
  const made = await begin(eve);
  const imported = async () => (await read(eve, made)).imported;
  await waitFor(async () => (await imported()) > 0, { timeoutMs: 30_000, everyMs: 10 });
  const paused = await change(eve, made, 'pause');
  expect(paused.imported).toBeLessThan(OLD);
  await eve.receive('INBOX', 'while it is paused');
  expect(await imported()).toBe(paused.imported);
  for (let kill = 0; kill < 2; kill++) {
    if (kill === 0) await change(eve, made, 'continue');
    const before = await imported();
    await waitFor(async () => (await imported()) > before, { timeoutMs: 90_000, everyMs: 10 });
    await live.product.killWorker('SIGKILL');
    expect(await imported()).toBeLessThan(OLD);
    live.product.startWorker();
  }
  await completed(eve, 150_000);
  expect(await read(eve, made)).toMatchObject({ imported: OLD, progress: { messages_done: OLD, messages_left: 0 } });
  expect((await subjects(eve)).size).toBe(OLD + 1);
  expect(typesOf(eve.events(...TYPES))).toEqual(['import.started', 'import.completed']);
  expect(typesOf(eve.events('email.new'))).toEqual(['email.new']);
  await eve.box.close();
}, 400_000);
