import type { Client } from '@temporalio/client';
import { createLimiter } from '../async.ts';
import { importStart, removalStart } from '../activities/account.ts';
import { importHistoryStart } from '../activities/import-history.ts';
import { databaseNow } from '../db/coordination/clock.ts';
import { accountsToImport, accountsToRemove } from '../db/queries/account-health.ts';
import type { Db } from '../db/driver/client.ts';
import { importsToRun } from '../db/queries/imports.ts';
import { giveUpDraft, draftsBeingSaved, releaseReservation, supersededDrafts } from '../outgoing/draft-state.ts';
import { giveUp, type HeldSend, heldSends } from '../outgoing/send-state.ts';
import { runningBatches } from '../mailbox/store/batches.ts';
import type { Logger } from '../runtime/logger.ts';
import { replayStart } from '../webhooks/log/replay-runs.ts';
import { runningReplays } from '../webhooks/log/replay-state.ts';
import {
  batchStart,
  draftWorkflowId,
  finishSendWorkflowId,
  QUEUES,
  removeDraftWorkflowId,
  searchableBy,
  sendWorkflowId,
  WORKFLOWS,
} from '../workflows/names.ts';
import { ensureRun, unlessUnderWay, type WantedRun } from './ensure-run.ts';

/*
 * Every state that names a run has an owner here, in account-health.ts (accounts) or in src/webhooks/dispatch/lost-runs.ts
 * (deliveries): it reads from the store what should have a run, and starts another one when that run has ended, no matter
 * who or what ended it. What can be looked at is bounded: a look takes one page, and the next look the next one.
 */

export interface LostRunsDeps {
  db: Db;
  client: Client;
  logger: Logger;
  /** see Config.sync */
  heartbeatTimeoutMs: number;
}

/** Work of which the store says that a run does it. */
interface Work {
  id: string;
  /** has another run started, unless one is under way; or gives the work up */
  seeTo(): Promise<unknown>;
}

interface Page {
  /** changed or renewed last before this, by the clock of the database */
  before: Date;
  afterId: string;
  limit: number;
}

/** Finds the work of one kind, in the order of ids. */
type Find = (page: Page) => Promise<Work[]>;

const PAGE = 100;
/** Calls to Temporal at a time. */
const AT_ONCE = 20;
/**
 * Younger work may be about to get its run: a call waits for its turn for less (src/api/commands/run-workflow.ts). Attempts at
 * sends and saves renew their rows every 10 s.
 */
const LOST_AFTER_MS = 45_000;

/** The looks for what has lost its run, by what they look for. Each must be called periodically. */
export function createLostRunLooks(
  deps: LostRunsDeps,
  lostAfterMs = LOST_AFTER_MS,
): Record<LostWork, () => Promise<void>> {
  const { db } = deps;
  const run = (id: string, wanted: WantedRun): Work => ({ id, seeTo: () => ensureRun(deps, wanted) });
  const unlessRun = (id: string, workflowId: string, end: () => Promise<unknown>): Work => ({
    id,
    seeTo: () => unlessUnderWay(deps, workflowId, end),
  });
  const look = (find: Find) => createLook(db, find, lostAfterMs);
  return {
    removals: look(async (page) => (await accountsToRemove(db, page)).map((id) => run(id, removalStart(id)))),
    imports: look(async (page) =>
      (await accountsToImport(db, page)).map((id) => run(id, importStart(id, deps.heartbeatTimeoutMs))),
    ),
    olderImports: look(async (page) =>
      (await importsToRun(db, page)).map((ref) => run(ref.id, importHistoryStart(ref, deps.heartbeatTimeoutMs))),
    ),
    submissions: look(async (page) =>
      (await heldSends(db, 'submitting', page)).map((send) => run(send.id, submission(send))),
    ),
    // the run of the send files the copy, as a rule
    filings: look(async (page) =>
      (await heldSends(db, 'sent', page)).map((send) =>
        unlessRun(send.id, sendWorkflowId(send.id), () => ensureRun(deps, filing(send))),
      ),
    ),
    queuedSends: look(async (page) =>
      (await heldSends(db, 'queued', page)).map(({ id }) =>
        unlessRun(id, sendWorkflowId(id), async () => {
          if (await giveUp(db, id)) await releaseReservation(db, id);
        }),
      ),
    ),
    saves: look(async (page) =>
      (await draftsBeingSaved(db, page)).map((id) => unlessRun(id, draftWorkflowId(id), () => giveUpDraft(db, id))),
    ),
    // the run that saved the new draft removes the old one, as a rule
    supersededDrafts: look(async (page) =>
      (await supersededDrafts(db, page)).map((draft) =>
        unlessRun(draft.id, draftWorkflowId(draft.supersededBy), () => ensureRun(deps, removalOfDraft(draft))),
      ),
    ),
    batches: look(async (page) => (await runningBatches(db, page)).map((batch) => run(batch.id, batchStart(batch)))),
    replays: look(async () => (await runningReplays(db)).map((replay) => run(replay.id, replayStart(replay)))),
  };
}

/** What may have lost its run. */
export type LostWork =
  | 'removals'
  | 'imports'
  | 'olderImports'
  | 'submissions'
  | 'filings'
  | 'queuedSends'
  | 'saves'
  | 'supersededDrafts'
  | 'batches'
  | 'replays';

function createLook(db: Db, find: Find, lostAfterMs: number): () => Promise<void> {
  let afterId = '';
  return async () => {
    const before = new Date((await databaseNow(db)).getTime() - lostAfterMs);
    const page = await find({ before, afterId, limit: PAGE });
    afterId = page.length < PAGE ? '' : (page.at(-1)?.id ?? '');
    const limit = createLimiter(AT_ONCE);
    const seen = await Promise.allSettled(page.map((work) => limit(() => work.seeTo())));
    // one that cannot be seen to does not keep the others
    const failed = seen.find(({ status }) => status === 'rejected');
    if (failed?.status === 'rejected') throw failed.reason;
  };
}

/** Sends nothing: it finds out whether the message has left. */
function submission({ id, accountId, draftId }: HeldSend): WantedRun {
  return [
    WORKFLOWS.sendEmail,
    {
      taskQueue: QUEUES.sends,
      workflowId: sendWorkflowId(id),
      args: [{ accountId, sendId: id }],
      typedSearchAttributes: searchableBy(accountId, [id, draftId]),
      staticSummary: `find out whether ${id} was sent`,
    },
  ];
}

function filing({ id, accountId, draftId }: HeldSend): WantedRun {
  return [
    WORKFLOWS.finishSend,
    {
      taskQueue: QUEUES.sends,
      workflowId: finishSendWorkflowId(id),
      args: [{ accountId, sendId: id }],
      typedSearchAttributes: searchableBy(accountId, [id, draftId]),
      staticSummary: `file the copy of ${id}, whose run was lost`,
    },
  ];
}

function removalOfDraft({ id, accountId }: { id: string; accountId: string }): WantedRun {
  return [
    WORKFLOWS.removeDraft,
    {
      taskQueue: QUEUES.commands,
      workflowId: removeDraftWorkflowId(id),
      args: [{ accountId, draftId: id }],
      typedSearchAttributes: searchableBy(accountId, [id]),
      staticSummary: `remove ${id}, which another draft replaced`,
    },
  ];
}
