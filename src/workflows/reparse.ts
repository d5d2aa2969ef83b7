import { ActivityCancellationType, continueAsNew, proxyActivities, workflowInfo } from '@temporalio/workflow';
import type { ReparseActivities, ReparseCounts, ReparseStep } from '../activities/reparse.ts';
import { QUEUES } from './names.ts';
import { trackState } from './run-state.ts';
import { setSearchAttributes } from './search-attributes.ts';

/*
 * state      what happens                                                       next
 * reparsing  reparseEmails, one bounded step after the other, newest mail first done  there is no more
 * done       the end: the result says how many emails differed
 *
 * What was changed is in the store: a run that was lost is started again from the beginning, and changes nothing twice.
 */

export interface ReparseInput {
  accountId: string;
  /** `incomplete`: only what was cut short and is due; left out: everything */
  only?: 'incomplete';
  /** from the run before */
  carried?: ReparseStep;
}

const { reparseEmails } = proxyActivities<ReparseActivities>({
  taskQueue: QUEUES.background,
  startToCloseTimeout: '10m',
  heartbeatTimeout: '30s',
  cancellationType: ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
  retry: { initialInterval: '1s', maximumInterval: '10m' },
});

/** Parses the stored mail of one account again. */
export async function reparse(input: ReparseInput): Promise<ReparseCounts> {
  const { accountId, only } = input;
  const shown = trackState('reparsing');
  setSearchAttributes(accountId);
  let step: ReparseStep = input.carried ?? {
    next: { list: only ?? 'emails', last: null },
    counts: { unchanged: 0, changed: 0, incomplete: 0, unreadable: 0 },
  };
  for (;;) {
    shown.enter(step.next ? 'reparsing' : 'done', { counts: step.counts });
    if (!step.next) return step.counts;
    if (workflowInfo().continueAsNewSuggested) return continueAsNew<typeof reparse>({ ...input, carried: step });
    const { next, counts } = await reparseEmails({ accountId, cursor: step.next });
    step = { next, counts: sum(step.counts, counts) };
  }
}

function sum(a: ReparseCounts, b: ReparseCounts): ReparseCounts {
  return {
    unchanged: a.unchanged + b.unchanged,
    changed: a.changed + b.changed,
    incomplete: a.incomplete + b.incomplete,
    unreadable: a.unreadable + b.unreadable,
  };
}
