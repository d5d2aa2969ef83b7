import { defineQuery, setCurrentDetails, setHandler } from '@temporalio/workflow';
import type { Failed } from './failure.ts';
import { QUERIES } from './names.ts';

/** Where a run stands: the response to the query `state`. Holds no address, mail text or secret. */
export interface RunState {
  /** one of the states in the table at the top of the workflow's file */
  state: string;
  /** when it got into this state, ISO 8601 */
  since: string;
  /** the class of the last error that counts still, e.g. `provider_error imap`; null: none */
  lastError: string | null;
  /** when the next attempt is due, ISO 8601; null: none is waited for */
  nextAttempt: string | null;
  /** e.g. failures in a row */
  counts: Record<string, number>;
}

/** What is known of a state besides its name. */
export interface StateDetails {
  /** left out: the one before stays; null: there is none any more */
  lastError?: string | null;
  /** milliseconds from now until the next attempt; left out: none is waited for */
  nextAttemptMs?: number;
  /** left out: those before stay */
  counts?: Record<string, number>;
}

/** The state of one run. */
export interface StateTracker {
  /** The run is in this state from now on, or still, with other details. */
  enter(state: string, details?: StateDetails): void;
  readonly current: Readonly<RunState>;
}

export const stateQuery = defineQuery<RunState>(QUERIES.state);

/**
 * Answers the query `state` and shows the state in Temporal's UI. Called before anything is awaited: a query may come with
 * the first task. None of it is a command, so it may change without `patched`.
 */
export function trackState(state: string): StateTracker {
  let current: RunState = { state, since: now(), lastError: null, nextAttempt: null, counts: {} };
  const show = () => setCurrentDetails(inWords(current));
  setHandler(stateQuery, () => current);
  show();
  return {
    get current() {
      return current;
    },
    enter(next, { lastError = current.lastError, nextAttemptMs, counts = current.counts } = {}) {
      const since = next === current.state ? current.since : now();
      const nextAttempt = nextAttemptMs === undefined ? null : new Date(Date.now() + nextAttemptMs).toISOString();
      current = { state: next, since, lastError, nextAttempt, counts };
      show();
    },
  };
}

/** The class of a failure, as operators may see it. */
export function classOf(failed: Failed): string | null {
  switch (failed.kind) {
    case 'failed':
      return [failed.code, failed.side].filter(Boolean).join(' ');
    case 'timeout':
      return 'no heartbeat: the worker was lost';
    case 'interrupted':
      return 'the worker was shut down';
    case 'cancelled':
      return null;
  }
}

const now = () => new Date(Date.now()).toISOString();

/** Markdown, a line for each thing. */
function inWords({ state, since, lastError, nextAttempt, counts }: RunState): string {
  return [
    `**${state}** since ${since}`,
    ...(lastError === null ? [] : [`last error: ${lastError}`]),
    ...(nextAttempt === null ? [] : [`next attempt: ${nextAttempt}`]),
    ...Object.entries(counts).map(([name, count]) => `${name}: ${count}`),
  ].join('  \n');
}
