import { asc, eq, sql } from 'drizzle-orm';
import type { Database, Db } from '../../../src/db/driver/client.ts';
import { LINES } from '../../../src/db/outbox.ts';
import { deliveries, pendingDeliveries } from '../../../src/db/schema/index.ts';
import { claimDeliveries } from '../../../src/webhooks/dispatch/claim.ts';
import type { ClaimedRun } from '../../../src/webhooks/dispatch/delivery-queries.ts';
import { endPending } from '../../../src/webhooks/log/pending.ts';
import { type DueLine, listDueLines } from '../../../src/webhooks/dispatch/due-lines.ts';

/** Gives every line that is due a turn, as the relay does; the runs that it makes. */
export async function claimOnce(
  db: Db,
  {
    most = 100,
    alone = 4,
    only = () => true,
  }: { most?: number; alone?: number; only?: (line: DueLine) => boolean } = {},
): Promise<ClaimedRun[]> {
  const { lines } = await listDueLines(db);
  const turns = lines
    .filter(only)
    .map((line) => ({ ...line, isPoor: line.isFailing, most: line.isProbe ? 1 : most, alone }));
  return (await claimDeliveries(db, turns)).flatMap(({ runs }) => runs);
}

/** A delivery of the log with what the queue says of it. */
export type LoggedDelivery = Awaited<ReturnType<typeof readLog>>[number];

/** The log with the queue, oldest first. */
export async function readLog(db: Db) {
  const rows = await db
    .select()
    .from(deliveries)
    .leftJoin(pendingDeliveries, eq(pendingDeliveries.deliveryId, deliveries.id))
    .orderBy(asc(deliveries.id));
  return rows.map(({ deliveries: delivery, pending_deliveries: pending }) => ({
    ...delivery,
    /** the run that has it, or that ended it */
    workflowId: pending ? pending.workflowId : delivery.workflowId,
    lastWorkflowId: delivery.workflowId,
    nextAttemptAt: pending?.waitsFor === 'retry' ? pending.dueAt : null,
    isForced: pending?.line === LINES.manual,
    isQueued: pending !== null,
    claimedAt: pending?.claimedAt ?? null,
    startedAt: pending?.startedAt ?? null,
  }));
}

/** Makes the queue agree with a log that a test has changed: what is pending waits in it, and nothing else. */
export async function queueAsLogged({ db, pool }: Pick<Database, 'db' | 'pool'>): Promise<void> {
  const ended = sql`select p.* from pending_deliveries p
    where not exists (select from deliveries d where d.id = p.delivery_id and d.status = 'pending')`;
  await db.execute(endPending(ended, sql`status = d.status`));
  await pool.query(`
    insert into pending_deliveries (delivery_id, endpoint_id, object_id, sequence, line, due_at, runs, replay_id)
    select id, endpoint_id, object_id, sequence, case when replay_id is null then 1 else 2 end, created_at, runs, replay_id
    from deliveries where status = 'pending' on conflict do nothing`);
}
