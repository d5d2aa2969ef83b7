/** How the waits between the attempts of a workflow grow. */
export interface Backoff {
  /** after the first failure, ms */
  firstMs: number;
  /** each wait is longer than the previous one by this factor; left out: 2 */
  factor?: number;
  longestMs: number;
}

/**
 * Milliseconds to wait after a number of failures in a row, 1 for the first. Jittered by a fifth: mailboxes that failed
 * together do not all reconnect together.
 */
export function waitAfter(failures: number, { firstMs, factor = 2, longestMs }: Backoff): number {
  const waitMs = Math.min(firstMs * factor ** (failures - 1), longestMs);
  return waitMs * (0.8 + 0.4 * Math.random());
}
