import { defineQuery, setCurrentDetails, setHandler } from '@temporalio/workflow';
import type { Failed } from './failure.ts';
import { QUERIES } from './names.ts';

/** The current state of a run: the response to the query `state`. Holds no address, mail text or secret. */
export interface RunState {
  /** one of the states in the table at the top of the workflow's file */
  state: string;
  /** when it entered this state, ISO 8601 */
  since: string;
  /** the class of the last error that still counts, e.g. `provider_error imap`; null: none */
  lastError: string | null;
  /** when the next attempt is due, ISO 8601; null: none is due */
  nextAttempt: string | null;
  /** e.g. failures in a row */
  counts: Record<string, number>;
}

/** The details of a state. */
export interface StateDetails {
  /** left out: unchanged; null: cleared */
  lastError?: string | null;
  /** milliseconds from now until the next attempt; left out: none is due */
  nextAttemptMs?: number;
  /** left out: unchanged */
  counts?: Record<string, number>;
}

/** Tracks the state of one run. */
export interface StateTracker {
  /** Enters a state, or changes the details of the present one. */
  enter(state: string, details?: StateDetails): void;
  readonly current: Readonly<RunState>;
}

export const stateQuery = defineQuery<RunState>(QUERIES.state);

/**
 * Answers the query `state` and shows the state in Temporal's UI. Call it before anything is awaited: a query may arrive
 * with the first task. It issues no commands, so it may change without `patched`.
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

/** The class of a failure, safe to show to operators. */
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

/** Markdown, one line per detail. */
function inWords({ state, since, lastError, nextAttempt, counts }: RunState): string {
  return [
    `**${state}** since ${since}`,
    ...(lastError === null ? [] : [`last error: ${lastError}`]),
    ...(nextAttempt === null ? [] : [`next attempt: ${nextAttempt}`]),
    ...Object.entries(counts).map(([name, count]) => `${name}: ${count}`),
  ].join('  \n');
}
