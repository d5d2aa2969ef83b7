import { describe, expect, it } from '@jest/globals';
import { and, eq } from 'drizzle-orm';
import { locations } from '../../src/db/schema/index.ts';
import { scanBaseline } from '../../src/mailbox/baseline.ts';
import { syncMailbox } from '../../src/mailbox/sync-pass.ts';
import { verifyMailbox } from '../../src/mailbox/verify.ts';
import { PLAIN } from '../helpers/fakes/fake-imap.ts';
import { mailText } from '../helpers/product/mail-text.ts';
import { type Engine, engineTests } from '../helpers/product/engine.ts';

/** Flags of messages older than the newest 200, which only a comparison of all flags finds where a folder has no MODSEQ. */

const { start } = engineTests();

const never = new AbortController().signal;
const COUNT = 205;
const MODSEQ = /\[HIGHESTMODSEQ \d+\]/;

async function seenAt(engine: Engine, uid: number): Promise<boolean | undefined> {
  const work = await engine.folder('Work');
  const at = and(eq(locations.folderId, work.id), eq(locations.uid, uid));
  return (await engine.ctx.db.select({ seen: locations.seen }).from(locations).where(at))[0]?.seen;
}

describe.each([
  ['answers [NOMODSEQ], on a server with CONDSTORE', `${PLAIN} CONDSTORE`, '[NOMODSEQ]'],
  ['answers [HIGHESTMODSEQ 0], on a server with CONDSTORE', `${PLAIN} CONDSTORE`, '[HIGHESTMODSEQ 0]'],
  ['is on a server without CONDSTORE', PLAIN, ''],
])('in a folder that %s', (_, capabilities, code) => {
  /** Swaps the read state of the oldest message and of another old one, which changes no counter. */
  async function startSwapped(): Promise<Engine> {
    const engine = await start({ capabilities, folders: { Work: [] } }, (server) => {
      for (let n = 1; n <= COUNT; n++)
        server.append('Work', mailText({ subject: `mail ${n}` }), { flags: n === 2 ? ['\\Seen'] : [] });
      server.script.answer = (text) =>
        text.startsWith('* STATUS "Work"')
          ? text.replace(/HIGHESTMODSEQ \d+/, 'HIGHESTMODSEQ 0')
          : text.replace(MODSEQ, (found) => code || found);
    });
    await scanBaseline(engine.ctx, never);
    await syncMailbox(engine.ctx, { freshSession: true, thorough: true });
    await syncMailbox(engine.ctx, {});
    const work = engine.server.folder('Work');
    engine.server.changeFlags(work, work.messages[0]!, ['\\Seen'], []);
    engine.server.changeFlags(work, work.messages[1]!, [], ['\\Seen']);
    return engine;
  }

  it('a thorough pass finds them', async () => {
    const engine = await startSwapped();
    expect([await seenAt(engine, 1), await seenAt(engine, 2)]).toEqual([false, true]);
    await syncMailbox(engine.ctx, { thorough: true });
    expect([await seenAt(engine, 1), await seenAt(engine, 2)]).toEqual([true, false]);
  });

  it('a verification repairs them', async () => {
    const engine = await startSwapped();
    expect(await verifyMailbox(engine.ctx, never)).toMatchObject({ differences: 2, left: 0, kinds: { flags: 2 } });
    expect([await seenAt(engine, 1), await seenAt(engine, 2)]).toEqual([true, false]);
  });
});
