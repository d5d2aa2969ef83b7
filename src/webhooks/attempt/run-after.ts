/** A failed attempt, as far as it decides which run makes the next attempt of the delivery. */
export interface FailedAttempt {
  /** its endpoint does not respond, and the breaker is open or about to open */
  isAway: boolean;
  isReplay: boolean;
  /** its run has other deliveries */
  isOneOfMany: boolean;
  /** no run has waited for its next attempt yet */
  isFirstRetry: boolean;
  /** its endpoint had failed before, or has never succeeded */
  isPoor: boolean;
  /** runs of its endpoint that wait for a next attempt */
  retryingRuns: number;
}

/** Where the delivery waits for its next attempt: in the `queue`, in its `own` run, or in the `same` run that attempted it. */
export type RunAfter = 'queue' | 'own' | 'same';

/** Runs of one endpoint that wait for a next attempt: enough for an operator to see what fails; others wait in the queue. */
const MOST_RETRYING = 5;
/** As many for a poor endpoint: many that fail together would be called at the same time, each by a run that costs more than its call. */
const MOST_RETRYING_OF_POOR = 1;

/** The first row that holds decides. */
const TABLE: readonly [(failed: FailedAttempt) => boolean, RunAfter][] = [
  [({ isAway }) => isAway, 'queue'],
  [({ isReplay }) => isReplay, 'queue'],
  // one that has waited in a run for its attempt is counted already
  [(failed) => failed.isFirstRetry && failed.retryingRuns >= mostRetrying(failed), 'queue'],
  [({ isOneOfMany }) => isOneOfMany, 'own'],
  [() => true, 'same'],
];

const mostRetrying = ({ isPoor }: FailedAttempt) => (isPoor ? MOST_RETRYING_OF_POOR : MOST_RETRYING);

/** Decides which run makes the next attempt. */
export function runAfter(failed: FailedAttempt): RunAfter {
  return TABLE.find(([holds]) => holds(failed))?.[1] ?? 'same';
}
