import { Context } from '@temporalio/activity';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { and, eq, like } from 'drizzle-orm';
import { withFailures } from '../../src/activities/failures.ts';
import { createReparseActivities } from '../../src/activities/reparse.ts';
import { startDueReparses } from '../../src/maintenance/reparse-runs.ts';
import { reparseMailbox } from '../../src/api/commands/reparse.ts';
import { emails } from '../../src/db/schema/index.ts';
import { createLogger } from '../../src/runtime/logger.ts';
import type { MailParser } from '../../src/mime/parser.ts';
import { announceWorker } from '../../src/db/coordination/workers.ts';
import { QUERIES, QUEUES, reparseWorkflowId } from '../../src/workflows/names.ts';
import type { RunState } from '../../src/workflows/run-state.ts';
import { mailText } from '../helpers/product/mail-text.ts';
import { storeEmail } from '../helpers/assert/rows.ts';
import { storeAccount } from '../helpers/product/stored-account.ts';
import { type TestClient, testClient } from '../helpers/product/temporal-workers.ts';
import { waitFor } from '../helpers/assert/wait.ts';
import { openSyncGround, type SyncGround } from '../helpers/product/watched-account.ts';

/** A run reparses stored mail, and resumes where it was stopped. */

let ground: SyncGround;
let temporal: TestClient;
const db = () => ground.database.database.db;

beforeAll(async () => {
  ground = await openSyncGround();
  temporal = await testClient();
  await announceWorker(db(), 'test', 0);
}, 60_000);
afterAll(async () => {
  await temporal.close();
  await ground.close();
});

/** An account with emails whose rows say less than their sources. */
async function storeOld(count: number): Promise<{ accountId: string; ids: string[] }> {
  const accountId = await storeAccount(ground.database.database);
  const ids: string[] = [];
  for (let n = 0; n < count; n++) {
    const { id, storageKey } = await storeEmail(ground.database.database, accountId, {
      subject: 'old',
      draft: n === 0,
    });
    await ground.storage.put(storageKey, mailText({ subject: `right ${n}` }));
    ids.push(id);
  }
  return { accountId, ids };
}

const subjectsLike = async (accountId: string, pattern: string) =>
  (
    await db()
      .select()
      .from(emails)
      .where(and(eq(emails.accountId, accountId), like(emails.subject, pattern)))
  ).length;

function activitiesWith(parse: MailParser['parse']) {
  const { storage, tempDir } = ground;
  const logger = createLogger('silent', 'test');
  return withFailures(createReparseActivities({ db: db(), storage, tempDir, logger, parser: { parse } }));
}

const runs = () => ({ client: temporal.api, hasWorker: () => Promise.resolve(true) });

describe('the run that reparses stored mail', () => {
  it('resumes where its worker stopped, and reports its progress', async () => {
    const { accountId } = await storeOld(12);
    let parsed = 0;
    let hangsSince = 0;
    const ending = activitiesWith((source, options) => {
      parsed += 1;
      if (parsed <= 5) return ground.parser.parse(source, options);
      hangsSince ||= Date.now();
      // until the worker ends
      return Context.current().cancelled;
    });
    const stop = await temporal.work(ending);
    // time enough for a busy worker to take it
    const first = reparseMailbox({ ...runs(), waitMs: 10_000 }, accountId);
    const handle = temporal.client.workflow.getHandle(reparseWorkflowId(accountId));
    await waitFor(
      async () => {
        if (hangsSince === 0) return false;
        const beat = (await handle.describe()).raw.pendingActivities?.[0]?.lastHeartbeatTime?.seconds;
        return Number(beat ?? 0) * 1000 > hangsSince + 2_000;
      },
      { timeoutMs: 30_000, what: 'a heartbeat after the fifth email' },
    );
    expect(await first).toMatchObject({ status: 'running', workflow_id: reparseWorkflowId(accountId) });
    await stop();
    const scheduled = (await handle.fetchHistory()).events?.flatMap((event) => {
      const queue = event.activityTaskScheduledEventAttributes?.taskQueue?.name;
      return queue ? [queue] : [];
    });
    // which leaves the slots to work that callers wait for
    expect(new Set(scheduled)).toEqual(new Set([QUEUES.background]));
    expect(await subjectsLike(accountId, 'right%')).toBe(5);

    let again = 0;
    const rest = activitiesWith((source, options) => {
      again += 1;
      return ground.parser.parse(source, options);
    });
    const stopRest = await temporal.work(rest);
    expect(await handle.result()).toEqual({ changed: 12, unchanged: 0, incomplete: 0, unreadable: 0 });
    expect(again).toBe(7);
    expect(await subjectsLike(accountId, 'right%')).toBe(12);
    expect(await handle.query<RunState>(QUERIES.state)).toMatchObject({ state: 'done', counts: { changed: 12 } });

    expect(await reparseMailbox(runs(), accountId)).toMatchObject({
      status: 'completed',
      changed: 0,
      unchanged: 12,
    });
    await stopRest();
  }, 120_000);

  it('automatically repeats only parses that were cut short', async () => {
    const { accountId, ids } = await storeOld(3);
    await db()
      .update(emails)
      .set({ isComplete: false, createdAt: new Date(Date.now() - 3_600_000) })
      .where(eq(emails.id, ids[1]!));
    const stop = await temporal.work(activitiesWith((source, options) => ground.parser.parse(source, options)));
    await startDueReparses(temporal.client, db());
    const handle = temporal.client.workflow.getHandle(reparseWorkflowId(accountId, 'incomplete'));
    expect(await handle.result()).toEqual({ changed: 1, unchanged: 0, incomplete: 0, unreadable: 0 });
    expect(await subjectsLike(accountId, 'old')).toBe(2);
    await startDueReparses(temporal.client, db());
    expect((await handle.describe()).status.name).toBe('COMPLETED');
    await stop();
  }, 60_000);
});
