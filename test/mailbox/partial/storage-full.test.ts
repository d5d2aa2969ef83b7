import { expect, it } from '@jest/globals';
import { buffer } from 'node:stream/consumers';
import { eq } from 'drizzle-orm';
import { accounts } from '../../../src/db/schema/index.ts';
import type { SyncContext } from '../../../src/mailbox/context.ts';
import { importMail } from '../../../src/mailbox/import.ts';
import { STREAM_FROM_BYTES } from '../../../src/mailbox/ingest/fetch.ts';
import { syncMailbox } from '../../../src/mailbox/sync-pass.ts';
import { guardStorage } from '../../../src/storage/guard.ts';
import { mailText } from '../../helpers/product/mail-text.ts';
import { storedEvents } from '../../helpers/product/stored-events.ts';
import { type Engine, engineTests } from '../../helpers/product/engine.ts';

const { ground, start: startOn } = engineTests();

/** A storage that takes no object which does not fit into `room` bytes. */
function bounded(storage: SyncContext['storage'], room: { bytes: number }): SyncContext['storage'] {
  return guardStorage({
    ...storage,
    put: async (key, body) => {
      const bytes = Buffer.isBuffer(body) ? body : await buffer(body);
      if (bytes.length > room.bytes) throw Object.assign(new Error('no space left'), { code: 'ENOSPC' });
      room.bytes -= bytes.length;
      return storage.put(key, bytes);
    },
  });
}

const large = (subject: string, bytes: number) => mailText({ subject, text: 'large '.repeat(bytes / 6) });

async function subjects({ ctx }: Engine): Promise<string[]> {
  const events = await storedEvents(ground().database.database, ctx.account.id);
  return events.map(({ type, data }) => `${type} ${(data as { email: { subject: string } }).email.subject}`);
}

const watched = async ({ ctx }: Engine) =>
  (await ctx.db.select().from(accounts).where(eq(accounts.id, ctx.account.id)))[0]!;

it.each([
  ['of one megabyte', 1024 * 1024],
  ['that is streamed', STREAM_FROM_BYTES + 1024],
])('small mail does not wait behind a message %s that does not fit into the storage', async (_, bytes) => {
  const engine = await startOn({ folders: { Work: [] } });
  const { server } = engine;
  const room = { bytes: 100_000 };
  const ctx = { ...engine.ctx, storage: bounded(engine.ctx.storage, room) };
  server.append('INBOX', mailText({ subject: 'first' }));
  server.append('INBOX', large('too large', bytes));
  server.append('INBOX', mailText({ subject: 'last' }));
  await syncMailbox(ctx, { freshSession: true });
  server.append('INBOX', mailText({ subject: 'later' }));
  server.append('Work', mailText({ subject: 'elsewhere' }));
  await syncMailbox(ctx, {});
  const stored = ['email.new first', 'email.new last', 'email.new later', 'email.new elsewhere'];
  expect(await subjects(engine)).toEqual(stored);
  expect(await engine.files()).toHaveLength(4);
  expect(await watched(engine)).toMatchObject({
    lastSyncedAt: null,
    watchFailure: 'the storage is full: 1 of the messages wait for room',
  });

  room.bytes = Infinity;
  await syncMailbox(ctx, {});
  expect(await subjects(engine)).toEqual([...stored, 'email.new too large']);
  expect(await watched(engine)).toMatchObject({ lastSyncedAt: expect.any(Date), watchFailure: '' });
  expect((await engine.folder('INBOX')).uidNext).toBe(5);
});

it('the initial sync imports what fits, and is not complete before all of it is', async () => {
  const engine = await startOn({}, (server) => {
    server.append('INBOX', mailText({ subject: 'older' }));
    server.append('INBOX', large('too large', 1024 * 1024));
    server.append('INBOX', mailText({ subject: 'newer' }));
  });
  const room = { bytes: 100_000 };
  const ctx = { ...engine.ctx, storage: bounded(engine.ctx.storage, room) };
  const options = { since: new Date(0), signal: new AbortController().signal, onProgress: () => {} };
  await expect(importMail(ctx, options)).rejects.toMatchObject({ part: 'storage', detail: 'the storage is full' });
  expect(await engine.files()).toHaveLength(2);
  room.bytes = Infinity;
  await importMail(ctx, options);
  expect(await engine.files()).toHaveLength(3);
});
