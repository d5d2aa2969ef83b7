import { ActivityCancellationType, continueAsNew, proxyActivities, workflowInfo } from '@temporalio/workflow';
import type { ReparseActivities, ReparseCounts, ReparseStep } from '../activities/reparse.ts';
import { QUEUES } from './names.ts';
import { trackState } from './run-state.ts';
import { setSearchAttributes } from './search-attributes.ts';

/*
 * state      what happens                                                     next
 * reparsing  reparseEmails, in bounded steps, newest mail first               done  all emails are reparsed
 * done       final: the result says how many emails differed
 *
 * Changes are stored step by step: a lost run is started again from the beginning, and changes nothing twice.
 */

export interface ReparseInput {
  accountId: string;
  /** `incomplete`: only emails whose parsing was cut short and is due; left out: all */
  only?: 'incomplete';
  /** from the previous run */
  carried?: ReparseStep;
}

const { reparseEmails } = proxyActivities<ReparseActivities>({
  taskQueue: QUEUES.background,
  startToCloseTimeout: '10m',
  heartbeatTimeout: '30s',
  cancellationType: ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
  retry: { initialInterval: '1s', maximumInterval: '10m' },
});

/** Reparses the stored mail of one account. */
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
