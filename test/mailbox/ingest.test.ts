import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { eq } from 'drizzle-orm';
import { takeLease } from '../../src/db/coordination/lease.ts';
import { contacts, emails, locations, sends } from '../../src/db/schema/index.ts';
import { fetchMeta } from '../../src/imap/fetch.ts';
import type { SyncContext } from '../../src/mailbox/context.ts';
import { STREAM_FROM_BYTES } from '../../src/mailbox/ingest/fetch.ts';
import { ingest, ingestAppended, type IngestTarget } from '../../src/mailbox/ingest/ingest.ts';
import { selectionOf, withSelected } from '../../src/mailbox/selected.ts';
import { importMail } from '../../src/mailbox/import.ts';
import { syncOnce } from '../../src/mailbox/sync-pass.ts';
import { openFolder } from '../../src/imap/select.ts';
import { newId } from '../../src/new-id.ts';
import { mailText } from '../helpers/product/mail-text.ts';
import { type Engine, engineTests } from '../helpers/product/engine.ts';

const { ground, start } = engineTests();

/** Ingests everything in a folder. */
async function ingestAll(
  engine: Engine,
  path: string,
  source: IngestTarget['source'] = 'live',
  ctx: SyncContext = engine.ctx,
) {
  const folder = await engine.folder(path);
  const batches: number[] = [];
  const result = await withSelected(ctx.session, path, async (selection) =>
    ingest(ctx, { folder, selection, source }, await fetchMeta(ctx.session, 1), (count) => batches.push(count)),
  );
  return { ...result, batches };
}

const emailsOf = ({ ctx }: Engine) => ctx.db.select().from(emails).where(eq(emails.accountId, ctx.account.id));
const locationsOf = ({ ctx }: Engine) =>
  ctx.db.select().from(locations).where(eq(locations.accountId, ctx.account.id)).orderBy(locations.uid);
const bodiesFetched = ({ server }: Engine) =>
  server.log.filter(({ name, args }) => name === 'UID FETCH' && JSON.stringify(args).includes('BODY.PEEK[]'));

describe('ingestion', () => {
  it('saves messages in batches of 50, with their events, files and the cursor', async () => {
    const engine = await start();
    for (let n = 0; n < 120; n++) engine.server.append('INBOX', mailText({ subject: `mail ${n}` }));
    expect(await ingestAll(engine, 'INBOX')).toEqual({
      ingested: 120,
      uidNext: 121,
      leftOut: [],
      batches: [50, 50, 20],
    });
    expect((await engine.folder('INBOX')).uidNext).toBe(121);
    expect(await engine.events()).toEqual(Array<string>(120).fill('email.new'));
    expect(await engine.files()).toHaveLength(120);
  });

  it('changes nothing when it runs again', async () => {
    const engine = await start();
    for (let n = 0; n < 3; n++) engine.server.append('INBOX', mailText({ subject: `mail ${n}` }));
    await ingestAll(engine, 'INBOX');
    const before = await emailsOf(engine);
    expect(await ingestAll(engine, 'INBOX')).toMatchObject({ ingested: 0, uidNext: 4 });
    expect(await emailsOf(engine)).toEqual(before);
    expect(await engine.files()).toHaveLength(3);
  });

  it('leaves out messages that vanished before they could be fetched, and moves the cursor past them', async () => {
    const engine = await start();
    const [first] = [0, 1].map((n) => engine.server.append('INBOX', mailText({ subject: `mail ${n}` })));
    engine.server.script.command = ({ name, args }) => {
      if (name === 'UID FETCH' && JSON.stringify(args).includes('BODY.PEEK[]'))
        engine.server.remove('INBOX', first ?? 0);
    };
    expect(await ingestAll(engine, 'INBOX')).toMatchObject({ ingested: 1, uidNext: 3 });
    expect((await emailsOf(engine)).map(({ subject }) => subject)).toEqual(['mail 1']);
  });

  it('takes mail that the account has sent itself for no bounce, unless it has a delivery report', async () => {
    const engine = await start({ folders: { Sent: ['\\Sent'] } });
    const own = 'postmaster@example.test';
    const as = { ...engine.ctx, account: { ...engine.ctx.account, ownAddresses: [own] } };
    const mailOf = (subject: string, from: string, to: string) => mailText({ subject, from, to });
    const report = [{ name: 'r', type: 'message/delivery-status', content: Buffer.from('Action: failed\r\n') }];
    engine.server.append('Sent', mailOf('in Sent', 'postmaster@alias.test', 'one@x.test'));
    engine.server.append('INBOX', mailOf('own', 'Postmaster@example.test', 'two@x.test'));
    engine.server.append('INBOX', mailOf('foreign', 'postmaster@other.test', 'three@x.test'));
    engine.server.append('INBOX', mailText({ subject: 'report', from: own, to: 'four@x.test', attachments: report }));
    await ingestAll(engine, 'Sent', 'live', as);
    await ingestAll(engine, 'INBOX', 'live', as);
    const shown = (await emailsOf(engine)).map(({ subject, bounce }) => `${subject}: ${bounce !== null}`);
    expect(shown.sort()).toEqual(['foreign: true', 'in Sent: false', 'own: false', 'report: true']);
    const people = await engine.ctx.db.select().from(contacts).where(eq(contacts.accountId, engine.ctx.account.id));
    expect(people.map(({ address }) => address).sort()).toEqual(['one@x.test', 'two@x.test']);
  });

  it('streams a large message through the one temporary folder', async () => {
    const engine = await start();
    const content = Buffer.alloc(STREAM_FROM_BYTES, 'a');
    const attachments = [{ name: 'a.bin', type: 'application/octet-stream', content }];
    engine.server.append('INBOX', mailText({ subject: 'large', attachments }));
    const tempDir = join(ground().tempDir, 'no-directory');
    await writeFile(tempDir, '');
    await expect(ingestAll(engine, 'INBOX', 'live', { ...engine.ctx, tempDir })).rejects.toThrow('no-directory');
    expect(await ingestAll(engine, 'INBOX')).toMatchObject({ ingested: 1 });
    expect(await engine.files()).toHaveLength(2);
  });

  it('fetches a look-alike that turns out to be new, and saves it in the same batch', async () => {
    const engine = await start({ folders: { Work: [] } });
    const raw = mailText({ subject: 'twin' });
    engine.server.append('Work', raw, { date: new Date('2024-05-06T07:08:09Z') });
    await ingestAll(engine, 'Work');
    engine.server.append('INBOX', raw, { date: new Date('2024-05-07T07:08:09Z') });
    engine.server.append('INBOX', mailText({ subject: 'another' }));
    expect(await ingestAll(engine, 'INBOX')).toMatchObject({ ingested: 2, uidNext: 3 });
    expect(new Set((await emailsOf(engine)).map(({ id }) => id)).size).toBe(3);
    expect(bodiesFetched(engine)).toHaveLength(3);
  });

  it('gives a moved email its new location, without fetching it', async () => {
    const engine = await start({ folders: { Work: [] } });
    const date = new Date('2024-05-06T07:08:09Z');
    const raw = mailText({ subject: 'moves' });
    engine.server.append('INBOX', raw, { date });
    await ingestAll(engine, 'INBOX');
    engine.server.append('Work', raw, { date });
    expect(await ingestAll(engine, 'Work')).toMatchObject({ ingested: 0 });
    const [email] = await emailsOf(engine);
    expect((await locationsOf(engine)).map(({ emailId }) => emailId)).toEqual([email?.id, email?.id]);
    expect(await engine.events()).toEqual(['email.new', 'email.update']);
    expect(bodiesFetched(engine)).toHaveLength(1);
  });

  it('treats older messages as baseline until the baseline is known', async () => {
    const engine = await start();
    engine.server.append('INBOX', mailText(), { date: new Date('2020-01-01T00:00:00Z') });
    engine.server.append('INBOX', mailText());
    const result = await ingestAll(engine, 'INBOX', 'live', { ...engine.ctx, baselineKnown: () => false });
    expect(result).toMatchObject({ ingested: 1, uidNext: 3 });
    expect((await locationsOf(engine)).map(({ emailId }) => emailId === null)).toEqual([true, false]);
    expect(bodiesFetched(engine)).toHaveLength(1);
  });

  it('makes the Sent copy the email that was sent', async () => {
    const engine = await start({ folders: { Sent: ['\\Sent'] } });
    const { db, account } = engine.ctx;
    const id = newId('email');
    const messageId = '<sent@example.test>';
    const now = new Date();
    const send = { id, accountId: account.id, messageId, apiKeyId: 'pk_1', apiKeyName: 'k', createdAt: now };
    await db.insert(sends).values({ ...send, state: 'sent', updatedAt: now });
    engine.server.append('Sent', mailText({ messageId, from: 'reader@example.test' }), { flags: ['\\Seen'] });
    engine.server.append('INBOX', mailText({ messageId, headers: { Received: 'from here' } }));
    await ingestAll(engine, 'Sent');
    await ingestAll(engine, 'INBOX');
    const rows = await emailsOf(engine);
    expect(rows.map((row) => [row.id === id, row.origin, row.isEcho]).sort()).toEqual([
      [false, 'external', true],
      [true, 'api', true],
    ]);
  });

  it('does not move the cursor for messages that this API appended', async () => {
    const engine = await start();
    const uid = engine.server.append('INBOX', mailText());
    const folder = await engine.folder('INBOX');
    const selected = await openFolder(engine.ctx.session, 'INBOX');
    await ingestAppended(engine.ctx, folder, { ...selected, uidValidity: selected.uidValidity + 1 }, [uid]);
    expect(await emailsOf(engine)).toHaveLength(0);
    await ingestAppended(engine.ctx, folder, selected, [uid]);
    expect(await emailsOf(engine)).toHaveLength(1);
    expect(await engine.folder('INBOX')).toMatchObject({ uidNext: 1, totalCount: 1, unreadCount: 1 });
    await syncOnce(engine.ctx, {});
    expect(await engine.events()).toEqual(['email.new']);
  });

  it('imports what was there before, newest first and without email.new', async () => {
    const day = 86_400_000;
    const engine = await start({}, (server) => {
      for (const days of [40, 3, 2, 1]) {
        server.append('INBOX', mailText({ subject: `${days} days` }), { date: new Date(Date.now() - days * day) });
      }
    });
    const progress: number[] = [];
    const since = new Date(Date.now() - 30 * day);
    const { signal } = new AbortController();
    for (let run = 0; run < 2; run++) {
      await importMail(engine.ctx, { since, signal, onProgress: (imported) => progress.push(imported) });
    }
    expect(progress.reduce((sum, count) => sum + count)).toBe(3);
    expect((await emailsOf(engine)).map(({ subject }) => subject).sort()).toEqual(['1 days', '2 days', '3 days']);
    expect(await engine.events()).toEqual([]);
  });

  it('refuses to use UIDs in a folder that is no longer selected', async () => {
    const engine = await start({ folders: { Work: [] } });
    engine.server.append('INBOX', mailText());
    const folder = await engine.folder('INBOX');
    const selection = selectionOf(engine.ctx.session, await openFolder(engine.ctx.session, 'INBOX'));
    const metas = await fetchMeta(engine.ctx.session, 1);
    await openFolder(engine.ctx.session, 'Work');
    const ingesting = ingest(engine.ctx, { folder, selection, source: 'live' }, metas);
    await expect(ingesting).rejects.toThrow('another folder is selected');
    expect(await engine.files()).toEqual([]);
  });
});

describe('the files of a batch that could not be saved', () => {
  it('are deleted', async () => {
    const engine = await start();
    for (let n = 0; n < 120; n++) engine.server.append('INBOX', mailText({ subject: `mail ${n}` }));
    await takeLease(engine.ctx.db, engine.ctx.account.id);
    await expect(syncOnce(engine.ctx, {})).rejects.toThrow();
    expect(await engine.files()).toEqual([]);
  });

  it('are deleted when one of them could not be written', async () => {
    const engine = await start();
    for (let n = 0; n < 20; n++) engine.server.append('INBOX', mailText({ subject: `mail ${n}` }));
    let puts = 0;
    const storage: SyncContext['storage'] = {
      ...engine.ctx.storage,
      put: async (key, body) => {
        if (++puts === 3) throw new Error('no room');
        return engine.ctx.storage.put(key, body);
      },
    };
    await expect(ingestAll(engine, 'INBOX', 'live', { ...engine.ctx, storage })).rejects.toThrow('no room');
    expect(await engine.files()).toEqual([]);
    expect(await ingestAll(engine, 'INBOX')).toMatchObject({ ingested: 20 });
  });

  it('stay when the commit succeeded although it seemed to fail', async () => {
    const engine = await start();
    engine.server.append('INBOX', mailText());
    const { db } = engine.ctx;
    let transactions = 0;
    const losing = new Proxy(db, {
      get(target, name) {
        if (name !== 'transaction') return Reflect.get(target, name) as unknown;
        return async (...args: Parameters<typeof db.transaction>) => {
          const result = await target.transaction(...args);
          if (++transactions === 1) throw new Error('the connection was lost during COMMIT');
          return result;
        };
      },
    });
    await expect(ingestAll(engine, 'INBOX', 'live', { ...engine.ctx, db: losing })).rejects.toThrow('during COMMIT');
    expect(await emailsOf(engine)).toHaveLength(1);
    expect(await engine.files()).toHaveLength(1);
  });
});
