import { and, eq, isNotNull, lt, or } from 'drizzle-orm';
import type { Db } from '../db/client.ts';
import { anyOf } from '../db/any-of.ts';
import { drafts, sends } from '../db/schema.ts';

/** Longer than any run of a send or a save goes on while nothing has left. */
const AFTER_MS = 2 * 60 * 60_000;

/**
 * Gives up sends and drafts that were asked for and whose run was never started, since the process died in between, and
 * answers the keys of files that no send or draft needs any more; `forget` is called once they are deleted.
 */
export async function giveUpStale(db: Db, now: Date): Promise<{ keys: string[]; forget(): Promise<void> }> {
  const before = new Date(now.getTime() - AFTER_MS);
  await db
    .update(sends)
    .set({ state: 'failed' })
    .where(and(eq(sends.state, 'queued'), lt(sends.updatedAt, before)));
  await db
    .update(drafts)
    .set({ state: 'failed' })
    .where(and(eq(drafts.state, 'saving'), lt(drafts.createdAt, before)));
  const over = and(
    anyOf(sends.state, ['failed', 'unknown']),
    lt(sends.updatedAt, before),
    or(isNotNull(sends.inputKey), isNotNull(sends.storageKey)),
  );
  const saved = and(eq(drafts.state, 'failed'), lt(drafts.createdAt, before), isNotNull(drafts.inputKey));
  const ofSends = await db
    .select({ id: sends.id, input: sends.inputKey, copy: sends.storageKey })
    .from(sends)
    .where(over)
    .limit(500);
  const ofDrafts = await db.select({ id: drafts.id, key: drafts.inputKey }).from(drafts).where(saved).limit(500);
  return {
    keys: [...ofSends.flatMap(({ input, copy }) => [input, copy]), ...ofDrafts.map(({ key }) => key)].flatMap(
      (key) => key ?? [],
    ),
    async forget() {
      const sendIds = ofSends.map(({ id }) => id);
      const draftIds = ofDrafts.map(({ id }) => id);
      if (sendIds.length > 0)
        await db.update(sends).set({ inputKey: null, storageKey: null }).where(anyOf(sends.id, sendIds));
      if (draftIds.length > 0) await db.update(drafts).set({ inputKey: null }).where(anyOf(drafts.id, draftIds));
    },
  };
}
