import { Context } from '@temporalio/activity';
import { type Db } from '../db/driver/client.ts';
import { countReparse, emailsToReparse, type ReparseCursor } from '../mailbox/reparse/reparses.ts';
import { LeaseLost } from '../db/coordination/lease.ts';
import { type ReparseDeps as EngineDeps, type ReparseOutcome, reparseEmail } from '../mailbox/reparse/reparse.ts';
import { loadSyncSettings } from '../mailbox/settings.ts';
import { measured } from '../runtime/measure.ts';
import { isStorageFull, isUnavailable } from '../outage.ts';

export interface ReparseDeps extends EngineDeps {
  db: Db;
}

export type ReparseActivities = ReturnType<typeof createReparseActivities>;

export type ReparseCounts = Record<ReparseOutcome, number>;

export interface ReparseStep {
  /** where the next step begins; null: all emails are reparsed */
  next: ReparseCursor | null;
  counts: ReparseCounts;
}

/** Emails per page; their bodies are loaded one by one. */
const PAGE = 50;
/** How long one execution works, about, ms; the workflow shows the counts in between. */
const STEP_MS = 20_000;
const HEARTBEAT_MS = 1_500;
/** Attempts of the activity before it skips an email that fails. */
const ATTEMPTS_EACH = 4;

/** Activities of the `reparse` workflow. */
export function createReparseActivities(deps: ReparseDeps) {
  /** Skips an email that fails each time: it must not stop the reparsing of all others. */
  async function passOver(error: unknown, emailId: string): Promise<'unreadable'> {
    const isItsOwn = !(error instanceof LeaseLost) && !isUnavailable(error) && !isStorageFull(error);
    if (!isItsOwn || Context.current().info.attempt < ATTEMPTS_EACH) throw error;
    deps.logger.warn({ emailId, err: error }, 'could not reparse email');
    await countReparse(deps.db, emailId);
    return 'unreadable';
  }

  /** Reparses stored emails of an account from `cursor` on; resumes after the loss of its worker. */
  async function reparseEmails({
    accountId,
    cursor,
  }: {
    accountId: string;
    cursor: ReparseCursor;
  }): Promise<ReparseStep> {
    const context = Context.current();
    const until = performance.now() + STEP_MS;
    const resumed = context.info.heartbeatDetails as ReparseStep | undefined;
    const step: ReparseStep = resumed ?? {
      next: cursor,
      counts: { unchanged: 0, changed: 0, incomplete: 0, unreadable: 0 },
    };
    const heartbeat = () => context.heartbeat(step);
    const heartbeats = setInterval(heartbeat, HEARTBEAT_MS);
    try {
      const account = await loadSyncSettings(deps.db, accountId);
      if (!account) return { ...step, next: null };
      const { ownAddresses, authservId } = account;
      while (step.next && performance.now() < until) {
        const { rows, next } = await emailsToReparse(deps.db, accountId, step.next, PAGE);
        for (const row of rows) {
          if (context.cancellationSignal.aborted) await context.cancelled;
          const outcome = await reparseEmail(deps, { id: accountId, ownAddresses, authservId }, row).catch(
            (error: unknown) => passOver(error, row.id),
          );
          measured('reparsed', { outcome, count: 1 });
          step.counts[outcome] += 1;
          step.next = { list: step.next.list, last: { date: row.date.toISOString(), id: row.id } };
          if (performance.now() >= until) return step;
        }
        step.next = next;
        heartbeat();
      }
      return step;
    } catch (error) {
      // The account is being removed: nothing is left to do.
      if (error instanceof LeaseLost) return { ...step, next: null };
      throw error;
    } finally {
      clearInterval(heartbeats);
    }
  }

  return { reparseEmails };
}
