import { describe, expect, it } from '@jest/globals';
import { setTimeout as sleep } from 'node:timers/promises';
import { eq, sql } from 'drizzle-orm';
import { createBatch, getBatch, listBatchResults } from '../../src/db/queries/batches.ts';
import { batchItems, emails, type StoredBatchChange } from '../../src/db/schema/index.ts';
import { moveMessages } from '../../src/imap/move.ts';
import { openFolder } from '../../src/imap/select.ts';
import { changeMany } from '../../src/mailbox/changes/batch.ts';
import { changeFlags } from '../../src/mailbox/changes/mark.ts';
import { saveMoves } from '../../src/mailbox/changes/move.ts';
import { loadLocationsOf } from '../../src/mailbox/store/moves.ts';
import { applyVanished } from '../../src/mailbox/vanished.ts';
import { isBehindOther, nextOfBatch } from '../../src/mailbox/store/batches.ts';
import { syncMailbox } from '../../src/mailbox/sync-pass.ts';
import { newId } from '../../src/new-id.ts';
import { waitFor } from '../helpers/assert/wait.ts';
import { type FakeImapOptions, PLAIN } from '../helpers/fakes/fake-imap.ts';
import { type Engine, engineTests } from '../helpers/product/engine.ts';
import { mailText } from '../helpers/product/mail-text.ts';

/** Changes of many emails on scripted servers: commands, results and events. */

const { start } = engineTests();
const folders = { Work: [], Later: [], Trash: ['\\Trash'] };
const SERVERS: [string, FakeImapOptions][] = [
  ['with UIDPLUS and MOVE', { capabilities: `${PLAIN} MOVE`, folders }],
  ['with IMAP4rev1 alone', { capabilities: 'IMAP4rev1', folders }],
];
const MANY = 12;

async function filled(options: FakeImapOptions): Promise<{ engine: Engine; ids: string[] }> {
  const engine = await start(options);
  for (let n = 0; n < MANY; n++) engine.server.append(n % 2 ? 'INBOX' : 'Work', mailText({ subject: `mail ${n}` }));
  await syncMailbox(engine.ctx, { freshSession: true });
  const rows = await engine.ctx.db
    .select({ id: emails.id })
    .from(emails)
    .where(eq(emails.accountId, engine.ctx.account.id));
  return { engine, ids: rows.map(({ id }) => id) };
}

async function stored(engine: Engine, emailIds: string[], change: StoredBatchChange): Promise<string> {
  const id = newId('batch');
  await createBatch(engine.ctx.db, { id, accountId: engine.ctx.account.id, change, emailIds });
  return id;
}

/** Makes what is pending of a batch, as its activity does. */
async function make({ ctx, folder }: Engine, batchId: string, target?: string): Promise<void> {
  const next = await nextOfBatch(ctx.db, batchId, 500);
  if (!next) throw new Error('the batch is not running');
  const findTarget = target === undefined ? undefined : () => folder(target);
  await changeMany(ctx, next.items, { batchId, flags: next.change.flags, findTarget, givesUp: true });
}

async function results({ ctx }: Engine, batchId: string): Promise<Record<string, string[]>> {
  const { data } = await listBatchResults(ctx.db, batchId, { status: undefined, after: 0, limit: 250 });
  const found: Record<string, string[]> = {};
  for (const { email_id: id, status, error } of data) (found[error?.type ?? status] ??= []).push(id);
  return found;
}

const STAR = { flags: { add: ['\\Flagged'], remove: [] } };
const updates = async (engine: Engine) => (await engine.events()).filter((type) => type === 'email.update').length;
const count = (engine: Engine, path: string) => engine.server.folder(path).messages.length;

it('waits for earlier batches of the same emails', async () => {
  const { engine, ids } = await filled({ capabilities: `${PLAIN} MOVE`, folders });
  const { db } = engine.ctx;
  const first = await stored(engine, ids.slice(0, 3), STAR);
  const second = await stored(engine, ids.slice(2, 6), { flags: { add: [], remove: ['\\Flagged'] } });
  const third = await stored(engine, ids.slice(6), STAR);
  const behind = () => Promise.all([first, second, third].map((batch) => isBehindOther(db, batch)));
  expect(await behind()).toEqual([false, true, false]);
  await make(engine, first);
  expect(await behind()).toEqual([false, false, false]);
});

it('waits for an earlier batch that is still being saved', async () => {
  const { engine, ids } = await filled({ capabilities: `${PLAIN} MOVE`, folders });
  const { db, account } = engine.ctx;
  const [first, second] = [newId('batch'), newId('batch')];
  const save = (id: string) => createBatch(db, { id, accountId: account.id, change: STAR, emailIds: ids });
  let saving: Promise<void> | undefined;
  let behind: Promise<boolean> | undefined;
  await db
    .transaction(async (tx) => {
      // the first one waits for this row
      await tx.insert(batchItems).values({ batchId: first, position: 1, accountId: account.id, emailId: 'eml_other' });
      saving = save(first);
      await waitFor(
        async () =>
          (
            await tx.execute(
              sql`select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
            )
          ).rows.length > 0,
      );
      behind = save(second).then(() => isBehindOther(db, second));
      await sleep(300);
      tx.rollback();
    })
    .catch(() => {});
  await saving;
  expect(await behind).toBe(true);
});

it('leaves a batch to a later attempt when the server asks for patience', async () => {
  const { engine, ids } = await filled({ capabilities: `${PLAIN} MOVE`, folders });
  const batch = await stored(engine, ids, STAR);
  for (const refusal of ['NO [UNAVAILABLE] later', 'NO [THROTTLED] slow down']) {
    engine.server.script.command = (command, fake) => {
      if (!/STORE/.test(command.name)) return false;
      fake.write(`${command.tag} ${refusal}\r\n`);
      return true;
    };
    await expect(make(engine, batch)).rejects.toMatchObject({ refused: true });
  }
  engine.server.script = {};
  await make(engine, batch);
  expect(await results(engine, batch)).toEqual({ changed: expect.any(Array) });
});

it('stars and moves an email, each with one event, though a sync has seen that it left before the move is stored', async () => {
  const { engine, ids } = await filled({ capabilities: `${PLAIN} MOVE`, folders });
  const { ctx, folder } = engine;
  const [id = ''] = ids;
  const [from] = (await loadLocationsOf(ctx.db, ctx.account.id, [id])).get(id) ?? [];
  if (!from) throw new Error('the email has no location');
  await changeFlags(ctx, id, STAR.flags);
  await openFolder(ctx.session, from.path);
  const { uids } = await moveMessages(ctx.session, [from.uid], 'Later');
  await applyVanished(ctx, await folder(from.path), [from.uid]);
  const arrived = { uid: uids.get(from.uid) ?? 0, from };
  await saveMoves(ctx, await folder('Later'), [{ emailId: id, arrived }], async () => {});
  await syncMailbox(ctx, { freshSession: true });
  const [row] = await ctx.db.select({ flags: emails.flags }).from(emails).where(eq(emails.id, id));
  expect([row?.flags, await updates(engine)]).toEqual([['\\flagged'], 2]);
});

describe.each(SERVERS)('on a server %s', (_, options) => {
  it('flags of many emails change, each with one event', async () => {
    const { engine, ids } = await filled(options);
    const batch = await stored(engine, ids, STAR);
    await make(engine, batch);
    expect(await results(engine, batch)).toEqual({ changed: ids });
    const flags = ['INBOX', 'Work'].flatMap((path) => engine.server.folder(path).messages.map((each) => each.flags));
    expect(flags.every((each) => [...each].includes('\\Flagged'))).toBe(true);
    expect(await updates(engine)).toBe(MANY);
    await syncMailbox(engine.ctx, { freshSession: true });
    expect(await updates(engine)).toBe(MANY);
  });

  it('many emails move, each with one event', async () => {
    const { engine, ids } = await filled(options);
    const batch = await stored(engine, ids, { folderId: (await engine.folder('Later')).id });
    await make(engine, batch, 'Later');
    expect((await results(engine, batch))['changed']).toEqual(ids);
    expect([count(engine, 'INBOX'), count(engine, 'Work'), count(engine, 'Later')]).toEqual([0, 0, MANY]);
    expect(await updates(engine)).toBe(MANY);
    await syncMailbox(engine.ctx, { freshSession: true });
    expect(await updates(engine)).toBe(MANY);
  });

  it('what was made before the results were stored is not reported again', async () => {
    const { engine, ids } = await filled(options);
    const first = await stored(engine, ids, { ...STAR, folderId: (await engine.folder('Later')).id });
    await make(engine, first, 'Later');
    const before = await updates(engine);
    const again = await stored(engine, ids, { ...STAR, folderId: (await engine.folder('Later')).id });
    await make(engine, again, 'Later');
    expect((await results(engine, again))['changed']).toEqual(ids);
    expect([await updates(engine), count(engine, 'Later')]).toEqual([before, MANY]);
  });

  it('emails that other programs deleted or moved have their own results', async () => {
    const { engine, ids } = await filled(options);
    const inbox = engine.server.folder('INBOX').messages;
    const [gone] = inbox;
    engine.server.expunge(engine.server.folder('INBOX'), gone!);
    const unknown = newId('email');
    const batch = await stored(engine, [...ids, unknown], { folderId: (await engine.folder('Later')).id });
    await make(engine, batch, 'Later');
    const { changed = [], 'errors/not_found': missing = [] } = await results(engine, batch);
    expect([changed.length, missing.length, missing.includes(unknown)]).toEqual([MANY - 1, 2, true]);
    expect(await getBatch(engine.ctx.db, engine.ctx.account.id, batch)).toMatchObject({ pending: 0, failed: 2 });
  });
});
