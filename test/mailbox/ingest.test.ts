import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { takeLease } from '../../src/db/lease.ts';
import { syncOnce } from '../../src/mailbox/sync-pass.ts';
import type { FakeImapOptions } from '../helpers/fake-imap.ts';
import { mailText } from '../helpers/mail-text.ts';
import { openSyncGround, type SyncGround } from '../helpers/watched-account.ts';
import { type Engine, startEngine } from './engine.ts';

let ground: SyncGround;
const open: Engine[] = [];

beforeAll(async () => {
  ground = await openSyncGround();
});
afterAll(() => ground.close());
afterEach(async () => {
  for (const engine of open.splice(0)) await engine.close();
});

async function start(options: FakeImapOptions = {}): Promise<Engine> {
  const engine = await startEngine(ground, options);
  open.push(engine);
  return engine;
}

describe('the files of a batch that could not be saved', () => {
  it('are deleted', async () => {
    const engine = await start();
    for (let n = 0; n < 120; n++) engine.server.append('INBOX', mailText({ subject: `mail ${n}` }));
    await takeLease(engine.ctx.db, engine.ctx.account.id);
    await expect(syncOnce(engine.ctx, new Set())).rejects.toThrow();
    expect(await engine.files()).toEqual([]);
  });
});
